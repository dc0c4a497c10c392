# A short door to Meson and Ninja. BUILD, PREFIX, DESTDIR and MESON_FLAGS may be set.
BUILD ?= build
PREFIX ?= /usr/local
MESON_FLAGS ?=

all: configured
	ninja -C $(BUILD)

# Configures, and again when PREFIX or MESON_FLAGS differ from last time.
configured:
	@command -v meson > /dev/null || \
	{ echo 'make: meson is missing ("make setup" installs what Brim needs)' >&2; exit 1; }
	@flags='--prefix $(abspath $(PREFIX)) $(MESON_FLAGS)'; \
	if [ ! -e $(BUILD)/build.ninja ]; then meson setup $(BUILD) $$flags; \
	elif [ "$$flags" != "$$(cat $(BUILD)/flags 2> /dev/null)" ]; then meson configure $(BUILD) $$flags; fi && \
	echo "$$flags" > $(BUILD)/flags

setup:
	scripts/setup.sh

demo: setup
	$(MAKE) all
	scripts/demo.sh $(BUILD)

test: setup
	$(MAKE) all
	meson test -C $(BUILD) --no-rebuild --print-errorlogs --no-suite nvrtc

# The tests that need an NVIDIA card.
test-gpu: setup
	$(MAKE) all
	scripts/test-gpu.sh $(BUILD)

# What CI adds to the tests; CHECKS="format tsan" runs only those.
check:
	scripts/setup.sh check
	scripts/check.sh $(CHECKS)

install: all
	meson install -C $(BUILD) --no-rebuild $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))
	$(if $(DESTDIR),,ldconfig 2> /dev/null || true)

clean:
	rm -rf $(BUILD) build-check

.PHONY: test-gpu all configured setup demo test check install clean
