#!/bin/sh
# Makes a Debian package of the program: `make deb` calls this.
#
#   packaging/deb.sh VERSION OUT     the tree was installed with PREFIX=/usr below OUT/root; the package comes to lie in OUT
#
# What is needed at run time is read from the program by dpkg-shlibdeps. The library and its header stay out: they are for
# those who build.
set -eu
version=$1 out=$2 root=$2/root
for tool in dpkg-deb dpkg-shlibdeps strip; do
    command -v $tool >/dev/null || {
        echo "make deb needs $tool (packages dpkg, dpkg-dev, binutils)" >&2
        exit 1
    }
done
rm -rf "$root/usr/include" "$root/usr/lib/pkgconfig" "$root"/usr/lib/lib*.a
strip "$root/usr/bin/ffwd"
install -d "$root/DEBIAN" "$root/etc/default" "$root/etc/ffwd" "$root/usr/share/doc/ffwd"
install -m 644 packaging/ffwd.default "$root/etc/default/ffwd"
install -m 644 LICENSE "$root/usr/share/doc/ffwd/copyright"
install -m 644 NOTICES.md README.md "$root/usr/share/doc/ffwd/"
echo /etc/default/ffwd >"$root/DEBIAN/conffiles"

# dpkg-shlibdeps wants to stand in a source package.
mkdir -p "$out/source/debian"
printf 'Source: ffwd\n\nPackage: ffwd\nArchitecture: any\n' >"$out/source/debian/control"
program=$(realpath "$root/usr/bin/ffwd")
depends=$(cd "$out/source" && dpkg-shlibdeps -O "$program" | sed -n 's/^shlibs:Depends=//p')

cat >"$root/DEBIAN/control" <<END
Package: ffwd
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: ffwd
Section: net
Priority: optional
Depends: $depends
Recommends: python3-pip, libcurl3-gnutls
Installed-Size: $(du -sk "$root" | cut -f1)
Description: language models on CPUs, from the terminal and over HTTP
 Runs GGUF models and serves them with the APIs of OpenAI, Anthropic, Ollama and
 llama-server. Tokens that are known before the model says them are taken in one pass.
END
cat >"$root/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
    systemd-sysusers ffwd.conf
    systemctl daemon-reload
    # A server that runs goes on with the new program; one that does not is not started.
    systemctl try-restart ffwd.service || true
fi
END
cat >"$root/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now ffwd.socket ffwd.service || true
fi
END
chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm"
dpkg-deb --root-owner-group --build "$root" "$out" >/dev/null
ls "$out"/ffwd_*.deb
