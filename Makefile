# ffwd's build. `make help` lists the targets; docs/dependencies.md says what is needed and why.
#
# One rule compiles a C file, and the folder it lies in decides its instruction set: only src/kern/avx2, avx512 and neon
# get flags of their own, so the program starts on every x86-64 or aarch64 and picks kernels at run time.
#
# Two people in one tree: give each a folder of its own, `make BUILD=build/anna`.

VERSION  := $(shell sed -n 's/^.define FFWD_VERSION "\(.*\)"/\1/p' include/ffwd.h 2>/dev/null)
ifeq ($(origin CC),default) # make's own default is cc; CC from the environment or the command line stays
CC       := gcc
endif
ifeq ($(origin AR),default)
AR       := $(or $(shell $(CC) -print-prog-name=ar 2>/dev/null),ar)
endif
BUILD    ?= build
PREFIX   ?= /usr/local
# What the compiler compiles for: `make CC=aarch64-linux-gnu-gcc BUILD=build/aarch64 objs` needs nothing else.
MACHINE  := $(or $(shell $(CC) -dumpmachine 2>/dev/null | cut -d- -f1),$(shell uname -m))
PYTHON   := build/venv/bin/python

# `make run`: which model, which prompt. MODEL is a known name (`ffwd pull` lists them) or a GGUF file.
MODEL    ?= smollm2
PROMPT   ?= Explain in two sentences why the sky is blue.
PORT     ?= 8080

ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif
MAKEFLAGS += --no-print-directory

# ---------------------------------------------------------------------------------------------------------- flags

# (Cutting a text at the end of its buffer is what snprintf is used for here.)
WARN := -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes -Wpointer-arith -Wwrite-strings \
        -Wno-format-truncation
# Warnings are errors with the compiler the project is tested with; with any other they are only shown.
WERROR ?= $(filter 12,$(shell $(CC) -dumpversion 2>/dev/null))
ifneq ($(filter-out 0,$(WERROR)),)
WARN += -Werror
endif

# -ffp-contract=off and no fast-math: the order of every operation is part of the contract (docs/architecture.md).
CSTD := -std=c11 -D_GNU_SOURCE -pthread -ffp-contract=off -fno-math-errno -ffunction-sections -fdata-sections
INC  := -Isrc -Ishim -Iinclude
HARD := -D_FORTIFY_SOURCE=2 -fstack-protector-strong
OPT  ?= -O2
# SAN=1: AddressSanitizer and UndefinedBehaviorSanitizer. SAN=thread: ThreadSanitizer.
ifdef SAN
HARD :=
OPT  := -O1
SANFLAGS := $(if $(filter thread,$(SAN)),-fsanitize=thread,-fsanitize=address,undefined -fno-sanitize-recover=all) \
            -fno-omit-frame-pointer
endif
ifdef FUZZER # with SAN=1, and clang: what libFuzzer follows inputs by
SANFLAGS += -fsanitize=fuzzer-no-link -Wno-unknown-warning-option
endif
ALLFLAGS = $(CSTD) $(INC) $(OPT) -g $(WARN) $(HARD) $(SANFLAGS) $(CFLAGS)

AVX2_FLAGS   := -mavx2 -mfma -mf16c -mbmi2
AVX512_FLAGS := $(AVX2_FLAGS) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
NEON_FLAGS   := -march=armv8.2-a+dotprod
# (Instrumented for libFuzzer, clang takes half an hour for the wide kernels, which have no input that fuzzers could change.)
KERN_OPT     := $(if $(SAN),,-O3)
WIDE_OPT     := $(KERN_OPT) $(if $(FUZZER),-fno-sanitize=all)
FLAGS_kern        = $(KERN_OPT)
FLAGS_kern/ref    = $(KERN_OPT)
FLAGS_kern/avx2   = $(WIDE_OPT) $(AVX2_FLAGS)
FLAGS_kern/avx512 = $(WIDE_OPT) $(AVX512_FLAGS)
FLAGS_kern/neon   = $(WIDE_OPT) $(NEON_FLAGS)

LIBS_LIB    := -lxxhash -lm -lpthread -ldl
LIBS_SERVER := -lmicrohttpd -lgnutls -ljansson
LIBS        := $(LIBS_SERVER) -lmd -ledit $(LIBS_LIB)

# -------------------------------------------------------------------------------------------------------- sources

OTHER_ISA := $(if $(filter x86_64,$(MACHINE)),src/kern/neon/%,src/kern/avx2/% src/kern/avx512/%)
SRC       := $(filter-out $(OTHER_ISA),$(sort $(wildcard src/*/*.c src/*/*/*.c src/*/*/*/*.c)))
obj        = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))

SERVER_SRC := $(filter src/server/%,$(SRC))
CLI_SRC    := $(filter-out src/cli/main.c,$(filter src/cli/%,$(SRC)))
LIB_SRC    := $(filter-out src/server/% src/cli/%,$(SRC))

LIB        := $(BUILD)/libffwd.a
SERVER_LIB := $(BUILD)/libffwd_server.a
CLI_LIB    := $(BUILD)/libffwd_cli.a
PROGRAM    := $(BUILD)/ffwd

SHIM_SRC := $(wildcard shim/Cargo.toml shim/Cargo.lock shim/build.rs shim/src/*.rs shim/src/*/*.rs)
SHIM_LIB := $(if $(wildcard shim/Cargo.toml),build/shim/release/libffwd_shim.a)

.DEFAULT_GOAL := build
.PHONY: build objs lib shim setup setup-test setup-long setup-fuzz run serve test test-unit test-long test-clients tests asan \
        tsan fuzz fuzzers lint bench bench-http bench-limits bench-replay bench-servers kern-bench format notices models \
        install uninstall deb clean help FORCE
.SECONDARY:
.DELETE_ON_ERROR:

build: $(if $(wildcard src/cli/main.c),$(PROGRAM)) $(LIB) ## the program and the library (the default)
objs: $(call obj,$(SRC)) ## every C object, without Rust and without linking
lib: $(LIB)
shim: $(SHIM_LIB)

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(ALLFLAGS) $(FLAGS_$(patsubst src/%/,%,$(dir $<))) $(if $(filter tests/%,$<),-Itests/lib -Itests) \
	   -MMD -MP -c -o $@ $<

# Changes only when the flags do, and then everything is compiled again.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(ALLFLAGS) $(AVX512_FLAGS) $(NEON_FLAGS) $(KERN_OPT)' | cmp -s - $@ || \
	   echo '$(CC) $(ALLFLAGS) $(AVX512_FLAGS) $(NEON_FLAGS) $(KERN_OPT)' > $@
FORCE:

# The web page and the API's description, as C. (The folders are named so that a file that is gone is noticed, too.)
$(BUILD)/web_files.c: tools/embed.py docs/openapi.json $(filter-out web/node_modules%,$(wildcard web web/* web/*/*))
	@echo "  EMBED web docs/openapi.json"
	@tools/embed.py web docs/openapi.json $@
$(BUILD)/obj/web_files.o: $(BUILD)/web_files.c src/server/web.h src/server/http/http.h $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(ALLFLAGS) -c -o $@ $<

$(LIB): $(call obj,$(LIB_SRC))
$(SERVER_LIB): $(call obj,$(SERVER_SRC)) $(BUILD)/obj/web_files.o
$(CLI_LIB): $(call obj,$(CLI_SRC))
$(BUILD)/libtests.a: $(call obj,$(sort $(wildcard tests/lib/*.c)))
$(BUILD)/libfuzz.a: $(call obj,$(sort $(wildcard tests/fuzz/kit/*.c)))
$(LIB) $(SERVER_LIB) $(CLI_LIB) $(BUILD)/libtests.a $(BUILD)/libfuzz.a:
	@mkdir -p $(@D)
	@echo "  AR    $@"
	@rm -f $@ && $(AR) rcs $@ $^

# The archive is as old as the beginning of its build: a source that changed meanwhile is newer and builds it again.
$(SHIM_LIB): $(SHIM_SRC)
	@echo "  CARGO $@ (the first time takes minutes)"
	@cargo=$$(tools/setup.sh cargo) && began=$$(mktemp) && trap 'rm -f "$$began"' EXIT \
	   && env -u MAKEFLAGS -u MFLAGS RUSTC="$${cargo%cargo}rustc" "$$cargo" build --quiet --release --locked \
	      --manifest-path shim/Cargo.toml --target-dir build/shim && touch -r "$$began" $@

LINK = $(CC) $(ALLFLAGS) -Wl,--gc-sections -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group

$(PROGRAM): $(call obj,src/cli/main.c) $(CLI_LIB) $(SERVER_LIB) $(LIB) $(SHIM_LIB)
	@echo "  LINK  $@"
	@$(LINK) $(LIBS)

# ---------------------------------------------------------------------------------------------------------- tests
# tests/unit/test_*.c: one cmocka program each. tests/kern/*.c: one program that compares every kernel with `ref`; it
# also holds the AVX-512 sources compiled against SIMDe's emulation, for machines that lack the instructions.
# tests/matrix/*.c: one program that runs a request through the engine in every way that must not change its bits.

UNIT     := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/unit/test_*.c)))
TEST_LIB := $(BUILD)/libtests.a
KERN_SRC := $(sort $(wildcard tests/kern/*.c))
KERN     := $(if $(KERN_SRC),$(BUILD)/tests/kern_check)
SIM      := $(BUILD)/tests/sim
# Those with more than one thread, for `make tsan`.
THREADED := test_base test_grammar_limits test_engine test_engine_many test_engine_cache test_sched test_server test_api \
            test_serve test_packed test_packed_file
FORWARD  := $(BUILD)/tests/forward
MATRIX   := $(if $(wildcard tests/matrix/*.c),$(BUILD)/tests/matrix)
# tests/fuzz/NAME.c: one fuzzer each; what they share is in tests/fuzz/kit.
FUZZERS  := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/fuzz_%,$(sort $(wildcard tests/fuzz/*.c)))
FUZZ_LIB := $(BUILD)/libfuzz.a
FUZZ_CC  ?= clang
FUZZ_SECONDS ?= 60
EMU_OBJ  := $(if $(filter x86_64,$(MACHINE)),$(patsubst src/kern/avx512/%.c,$(BUILD)/tests/emu/%.o,\
              $(wildcard src/kern/avx512/*.c)))
EXAMPLES := $(patsubst examples/%.c,$(BUILD)/examples/%,$(sort $(wildcard examples/*.c)))

tests: $(UNIT) $(KERN) $(SIM) $(FORWARD) $(MATRIX) $(EXAMPLES) fuzzers ## builds the test programs without running them

$(BUILD)/tests/test_%: $(BUILD)/obj/tests/unit/test_%.o $(TEST_LIB) $(CLI_LIB) $(SERVER_LIB) $(LIB) $(SHIM_LIB)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(LINK) -lcmocka $(LIBS)

$(BUILD)/tests/emu/%.o: src/kern/avx512/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    $< (emulated)"
	@$(CC) $(ALLFLAGS) -O1 -Wno-psabi -DKERN_EMULATE_AVX512 $(AVX2_FLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/tests/kern_check: $(call obj,$(KERN_SRC)) $(EMU_OBJ) $(LIB)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(LINK) $(LIBS_LIB)

# What tests/cross also builds for another processor: without Rust and other people's libraries.
$(FORWARD): $(call obj,tests/cross/forward.c) $(TEST_LIB) $(LIB)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(LINK) $(LIBS_LIB)

$(BUILD)/tests/bare/%: $(BUILD)/obj/tests/unit/%.o $(TEST_LIB) $(LIB)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(LINK) $(LIBS_LIB)

# The engine under random load (tests/sim).
$(BUILD)/tests/sim: $(call obj,$(wildcard tests/sim/*.c)) $(TEST_LIB) $(LIB) $(SHIM_LIB)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(LINK) $(LIBS_LIB) -ljansson

$(BUILD)/tests/matrix: $(call obj,$(sort $(wildcard tests/matrix/*.c))) $(TEST_LIB) $(LIB) $(SHIM_LIB)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(LINK) $(LIBS)

# libFuzzer has a main(); otherwise it is that of tests/fuzz/kit/replay.c.
fuzzers: $(FUZZERS)
$(BUILD)/tests/fuzz_%: $(BUILD)/obj/tests/fuzz/%.o $(FUZZ_LIB) $(TEST_LIB) $(CLI_LIB) $(SERVER_LIB) $(LIB) $(SHIM_LIB)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(LINK) $(if $(FUZZER),-fsanitize=fuzzer) -lcmocka $(LIBS)

# Examples see what an application sees: the public header and the libraries.
$(BUILD)/examples/%: examples/%.c include/ffwd.h $(LIB) $(SHIM_LIB)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) -std=c11 -Wall -Wextra -g -Iinclude -o $@ $< -Wl,--gc-sections -Wl,--start-group $(LIB) $(SHIM_LIB) \
	   -Wl,--end-group $(SANFLAGS) -ljansson $(LIBS_LIB)

# One program against only the folders it needs, while the rest of the tree does not compile:
#   make one T=tests/unit/test_kv.c F="base kern kv/pool.c"     (NOSHIM=1: without Rust)
.PHONY: one
one:
	@$(MAKE) $(BUILD)/one T=$(T) F="$(F)" && $(BUILD)/one
$(BUILD)/one: $(call obj,$(T) $(filter $(foreach f,$(F),src/$(f)/% src/$(f)),$(SRC))) $(TEST_LIB) $(if $(NOSHIM),,$(SHIM_LIB)) FORCE
	@$(LINK) -lcmocka $(LIBS)

# What the machine can do; without anything of ffwd.
LIMITS := $(BUILD)/bench/limits
$(LIMITS): bench/limits.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(ALLFLAGS) -o $@ $< -lpthread

RUN_TESTS = BUILD=$(BUILD) FFWD=$(PROGRAM) PYTHON=$(PYTHON) tools/run_tests.py

test: setup-test ## everything a change has to pass, real models included
	@$(MAKE) build tests $(PYTHON) && $(MAKE) models && $(RUN_TESTS) test
test-unit: setup-test ## lint, unit tests and the kernel check
	@$(MAKE) build tests && $(RUN_TESTS) unit
test-long: setup-long ## the full invariance matrix, 10,000 simulated scenarios, load on the server, kernels for aarch64
	@$(MAKE) build tests $(PYTHON) && $(MAKE) models && $(RUN_TESTS) long
test-clients: ## other projects' clients, the web page in Chromium and a fuzzer of the API, in environments of their own
	@tools/setup.sh clients && $(MAKE) build $(PYTHON) && $(MAKE) BUILD=build/asan SAN=1 build && $(MAKE) models \
	   && $(RUN_TESTS) clients
asan: setup-test ## the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) BUILD=build/asan SAN=1 tests && BUILD=build/asan tools/run_tests.py asan
# (Without address randomisation where that can be had: with much of it, gcc 12's runtime does not start.)
tsan: setup-test ## the programs that have threads, under ThreadSanitizer
	@$(MAKE) BUILD=build/tsan SAN=thread $(THREADED:%=build/tsan/tests/%) \
	   && BUILD=build/tsan $$(setarch -R true 2>/dev/null && echo setarch -R) tools/run_tests.py tsan
# (The shim is linked as it is: Rust code is not followed.)
fuzz: setup-fuzz ## every fuzzer of tests/fuzz for FUZZ_SECONDS=60 each; FUZZ="json stream": those. Findings are in build/fuzz
	@$(MAKE) BUILD=build/fuzz CC=$(FUZZ_CC) SAN=1 FUZZER=1 fuzzers \
	   && BUILD=build/fuzz FUZZ_SECONDS=$(FUZZ_SECONDS) tests/fuzz/fuzz.sh $(FUZZ)
lint: ## format, warnings, folder table, headers alone, banned calls, sizes, symbol prefixes
	@$(MAKE) objs && BUILD=$(BUILD) tools/lint.py
bench: setup-test ## measures against llama.cpp and ik_llama.cpp (IK_SOURCE=) and rewrites bench/RESULTS.md
	@$(MAKE) build $(LIMITS) $(CHARTS) && $(MAKE) models \
	   && BUILD=$(BUILD) FFWD=$(PROGRAM) PYTHON=$(PYTHON) bench/run.sh
bench-limits: $(LIMITS) ## what this machine's memory and processors can do
	@$(LIMITS)
bench-http: ## measures what serving costs beside the engine
	@$(MAKE) build && $(MAKE) models && FFWD=$(PROGRAM) bench/overhead.py
bench-replay: setup-test ## measures what fast-forwarding saves, and rewrites that section of bench/RESULTS.md
	@$(MAKE) build $(PYTHON) && $(MAKE) models && FFWD=$(PROGRAM) $(PYTHON) bench/replay.py
bench-servers: setup-test ## measures the server against others and rewrites bench/SERVERS.md (BENCH_QUICK=1: only tries it)
	@$(MAKE) build $(PYTHON) && $(MAKE) models && BUILD=$(BUILD) FFWD=$(PROGRAM) PYTHON=$(PYTHON) bench/servers.sh
kern-bench: setup-test ## times every kernel
	@$(MAKE) $(BUILD)/tests/kern_check && $(BUILD)/tests/kern_check --bench

# ----------------------------------------------------------------------------------------------------- set-up, use

setup: ## installs what the build needs (Debian, Ubuntu), or says what to install
	@tools/setup.sh build
setup-test:
	@tools/setup.sh test
setup-long:
	@tools/setup.sh long
setup-fuzz:
	@tools/setup.sh fuzz

$(PYTHON): tools/requirements.txt
	@echo "  VENV  build/venv"
	@python3 -m venv build/venv && build/venv/bin/python -m pip install --quiet -r $< && touch $@

CHARTS := build/venv/.charts
$(CHARTS): bench/requirements.txt $(PYTHON)
	@echo "  VENV  matplotlib"
	@build/venv/bin/python -m pip install --quiet -r $< && touch $@

models: $(PROGRAM)
	@$(PROGRAM) pull smollm2 >/dev/null && $(PROGRAM) pull gemma3-270m >/dev/null

run: setup ## builds, fetches the model and answers PROMPT="…" (MODEL= a name or a GGUF file)
	@$(MAKE) build && $(PROGRAM) run -m '$(MODEL)' -p '$(subst ','\'',$(value PROMPT))'
serve: setup ## the same, then serves HTTP on PORT
	@$(MAKE) build && $(PROGRAM) serve -m '$(MODEL)' --port $(PORT)

# What is installed is one object in which only the public names are global: an application may have its own queue_push().
PUBLIC := $(BUILD)/public/libffwd.a
$(PUBLIC): $(LIB)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@rm -f $@ && $(LD) -r -o $(@D)/ffwd.o --whole-archive $(LIB) \
	   && objcopy --wildcard --keep-global-symbol='ffwd_*' $(@D)/ffwd.o && $(AR) rcs $@ $(@D)/ffwd.o

install: build $(PUBLIC) ## PREFIX=/usr/local: program, library, header, manual pages, completions, systemd units
	@install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pkgconfig
	install -m 755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/ffwd
	install -m 644 include/ffwd.h $(DESTDIR)$(PREFIX)/include/ffwd.h
	install -m 644 $(PUBLIC) $(SHIM_LIB) $(DESTDIR)$(PREFIX)/lib/
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' ffwd.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/ffwd.pc
	@rm -rf $(BUILD)/share && tools/manual.py $(PROGRAM) $(BUILD)/share
	@to='$(abspath $(DESTDIR)$(PREFIX)/share)' && cd $(BUILD)/share && find . -type f -exec install -D -m 644 {} "$$to"/{} \;
	@install -d $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/lib/sysusers.d
	sed -e 's|@PREFIX@|$(PREFIX)|' packaging/ffwd.service.in > $(DESTDIR)$(PREFIX)/lib/systemd/system/ffwd.service
	install -m 644 packaging/ffwd.socket $(DESTDIR)$(PREFIX)/lib/systemd/system/ffwd.socket
	install -m 644 packaging/ffwd.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/ffwd.conf
uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/lib/,systemd/system/ffwd.service systemd/system/ffwd.socket sysusers.d/ffwd.conf)
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,bin/ffwd include/ffwd.h lib/libffwd.a lib/libffwd_shim.a lib/pkgconfig/ffwd.pc \
	   share/man/man1/ffwd.1 share/man/man1/ffwd-*.1 share/bash-completion/completions/ffwd \
	   share/zsh/site-functions/_ffwd share/fish/vendor_completions.d/ffwd.fish)

deb: build ## a Debian package of the program, in build/deb
	@rm -rf $(BUILD)/deb && $(MAKE) install PREFIX=/usr DESTDIR=$(BUILD)/deb/root >/dev/null \
	   && packaging/deb.sh $(VERSION) $(BUILD)/deb

notices: ## rewrites NOTICES.md from the crates and libraries that are linked
	@tools/notices.py
format: ## clang-format over the C sources (for new files; lint has rules of its own)
	clang-format -i $(SRC) $(wildcard src/*/*.h src/*/*/*.h include/*.h tests/*/*.[ch])
clean: ## removes build/ (models stay in the cache)
	rm -rf build
help:
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

-include $(shell find $(BUILD)/obj $(BUILD)/tests -name '*.d' 2>/dev/null)
