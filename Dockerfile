# ffwd in a container: built in one stage, and only the program and its libraries in the other.
#
#   docker build -t ffwd .
#   docker run --rm -p 127.0.0.1:8080:8080 -v /srv/models:/models:ro -v /srv/ffwd-keys:/etc/ffwd/keys:ro ffwd
#
# In a container loopback is the container's own, so the server listens on every address, and needs API keys for that
# (docs/serving.md). Where only the host reaches the port, `… ffwd serve -m /models/model.gguf --host 0.0.0.0 --without-keys`.
FROM debian:bookworm AS build
WORKDIR /src
COPY tools/setup.sh tools/
RUN apt-get update && apt-get install -y --no-install-recommends make && tools/setup.sh build
COPY . .
RUN make build && make install PREFIX=/usr DESTDIR=/install && strip /install/usr/bin/ffwd \
 && rm -rf /install/usr/include /install/usr/lib

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends libmicrohttpd12 libgnutls30 libjansson4 libmd0 libedit2 libxxhash0 libgcc-s1 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 900 --home-dir /nonexistent --shell /usr/sbin/nologin ffwd
COPY --from=build /install/usr /usr
COPY LICENSE NOTICES.md /usr/share/doc/ffwd/
USER ffwd
EXPOSE 8080
VOLUME /models
ENTRYPOINT ["/usr/bin/ffwd"]
CMD ["serve", "-m", "/models/model.gguf", "--host", "0.0.0.0", "--api-key-file", "/etc/ffwd/keys"]
