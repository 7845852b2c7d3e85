# Eclusa's build. One module.mk a folder names that folder's sources; everything but a main.c
# goes into one library a folder, so that tests and fuzzers link the code that ships.
#
#   make            build/eclusa build/eclusa-netd build/eclusa-proxy build/eclusa-export
#   make V=1        show commands        make SAN=1   ASan and UBSan, in build/san
#   make CC=clang   another compiler     make help    every target
#   make demo       the main job         make test    every test; both install what they need

V ?= 0
SAN ?= 0
BUILD ?= $(if $(filter 1,$(SAN)),build/san,build)
# One name for one folder: it is among the flags
override BUILD := $(patsubst $(CURDIR)/%,%,$(BUILD))
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBEXECDIR ?= $(PREFIX)/libexec/eclusa
MANDIR ?= $(PREFIX)/share/man
DATADIR ?= $(PREFIX)/share/eclusa
DOCDIR ?= $(PREFIX)/share/doc/eclusa
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions
UNITDIR ?= $(PREFIX)/lib/systemd/system
VERSION := $(shell cat VERSION)
Q := $(if $(filter 1,$(V)),,@)

PKGS := libnl-route-3.0 libnftnl libmnl openssl libcares libseccomp libuv jansson libpsl libidn2 yaml-0.1 libcurl zlib
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null | sed 's/-I/-isystem /g')
PKG_LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null)

WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla \
	-Wformat=2 -Wundef -Wpointer-arith -Wwrite-strings -Werror
HARDEN := -fstack-protector-strong -fstack-clash-protection -fPIE -fcf-protection=full
ifeq ($(SAN),1)
OPT := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
LDOPT := -fsanitize=address,undefined
else
OPT := -O2 -g -D_FORTIFY_SOURCE=2
LDOPT := -Wl,--as-needed
endif
CFLAGS ?=
CPPFLAGS_ALL := -D_GNU_SOURCE -I. -I$(BUILD) -DECLUSA_VERSION='"$(VERSION)"' $(PKG_CFLAGS)
CFLAGS_ALL := -std=gnu17 $(WARN) $(OPT) $(HARDEN) $(CFLAGS)
LDFLAGS_ALL := -pie -Wl,-z,relro,-z,now,-z,noexecstack $(LDOPT) $(LDFLAGS)

# Objects are made anew when the compiler or a flag changed since they were made; those few that know where the programs are installed,
# also when that did.
COMPILE := $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL)
PLACE := -DECLUSA_LIBEXECDIR='"$(LIBEXECDIR)"'
PLACED := common/file.c ipc/program.c cli/doctor_network.c
ifneq ($(filter-out clean uninstall help deps deps-test deps-bench deps-clients deps-programs deps-v2 demo test test-v2 clients programs escape soak check bench print-flags,$(or $(MAKECMDGOALS),all)),)
ifneq ($(COMPILE),$(file <$(BUILD)/flags))
$(shell mkdir -p $(BUILD))
$(file >$(BUILD)/flags,$(COMPILE))
endif
ifneq ($(PLACE),$(file <$(BUILD)/place))
$(shell mkdir -p $(BUILD))
$(file >$(BUILD)/place,$(PLACE))
endif
endif
libraries_present = $(if $(PKG_LIBS),,$(error a library is missing; `make deps` installs it: $(PKGS)))

.DEFAULT_GOAL := all
FOLDERS := common policy audit ipc netd proxy export sandbox-launcher report cli
include $(FOLDERS:%=%/module.mk)

objs = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
lib = $(BUILD)/lib/lib$(1).a

.PHONY: all
all: $(BUILD)/eclusa $(BUILD)/eclusa-netd $(BUILD)/eclusa-proxy $(BUILD)/eclusa-export

$(BUILD)/obj/%.o: %.c Makefile VERSION $(BUILD)/flags
	$(libraries_present)
	@mkdir -p $(@D)
	@[ "$(V)" = 1 ] || echo "  CC      $<"
	$(Q)$(COMPILE) $(if $(filter $<,$(PLACED)),$(PLACE)) -MMD -MP -c -o $@ $<
$(call objs,$(PLACED)): $(BUILD)/place

define folder_library
$(call lib,$(1)): $$(call objs,$$($(subst -,_,$(1))_SOURCES))
	@mkdir -p $$(@D)
	@[ "$$(V)" = 1 ] || echo "  AR      $$@"
	@rm -f $$@
	$$(Q)$$(AR) rcs $$@ $$^
endef
$(foreach f,$(FOLDERS),$(eval $(call folder_library,$(f))))

link = @[ "$(V)" = 1 ] || echo "  LINK    $@"; mkdir -p $(@D); \
	$(if $(filter 1,$(V)),set -x;) $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(PKG_LIBS)

# Without relocations at start: the shared ones cost 0.2 ms a program, for what is asked while policy is read
$(BUILD)/eclusa $(BUILD)/eclusa-netd $(BUILD)/eclusa-proxy: \
	PKG_LIBS := -l:libpsl.a -l:libidn2.a -l:libunistring.a -l:libyaml.a $(PKG_LIBS)
# Likewise 0.35 and 0.25 ms. Not OpenSSL and c-ares: they read what strangers send, so that a distribution's mend must reach them
# Not with sanitizers, which are linked without --as-needed: a library that is there twice has its state twice.
ifneq ($(SAN),1)
$(BUILD)/eclusa-netd: PKG_LIBS := -l:libnftnl.a -l:libnl-route-3.a -l:libnl-3.a $(PKG_LIBS)
$(BUILD)/eclusa-proxy: PKG_LIBS := -l:libuv_a.a -l:libseccomp.a -l:libjansson.a $(PKG_LIBS)
endif
# SHA-256 alone, linked statically: the shared libcrypto costs every start 0.7 ms of relocations
$(BUILD)/eclusa: PKG_LIBS := -l:libcrypto.a $(PKG_LIBS)
$(BUILD)/eclusa: $(call objs,cli/main.c) $(call lib,cli) $(call lib,report) $(call lib,sandbox-launcher) \
		$(call lib,policy) $(call lib,audit) $(call lib,ipc) $(call lib,common)
	$(link)
$(BUILD)/eclusa-netd: $(call objs,netd/main.c) $(call lib,netd) $(call lib,policy) \
		$(call lib,audit) $(call lib,ipc) $(call lib,common)
	$(link)
$(BUILD)/eclusa-proxy: $(call objs,proxy/main.c) $(call lib,proxy) $(call lib,policy) \
		$(call lib,audit) $(call lib,ipc) $(call lib,common)
	$(link)

$(BUILD)/eclusa-export: $(call objs,export/main.c) $(call lib,export) $(call lib,policy) \
		$(call lib,audit) $(call lib,ipc) $(call lib,common)
	$(link)

include tests/module.mk

MANUAL := $(wildcard docs/man/*.[1-9])
# docs/man/eclusa.1 goes to man1/eclusa.1
installed_page = $(MANDIR)/man$(subst .,,$(suffix $(1)))/$(notdir $(1))
# The pages keep their places, so that their links hold.
DOC_PAGES := README.md SECURITY.md CONTRIBUTING.md LICENSE allowlists/README.md \
	$(wildcard docs/*.md docs/decisions/*.md) $(MANUAL)
DOC_FOLDERS := docs/man docs/decisions docs allowlists
SIGMA := $(notdir $(wildcard packaging/sigma/*.yml))
UNITS := $(notdir $(wildcard packaging/*.service))
ALLOWLISTS := $(wildcard allowlists/*.allow allowlists/common/*.allow allowlists/*.md)

.PHONY: install uninstall
install: all
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(COMPLETIONDIR) \
		$(DOC_FOLDERS:%=$(DESTDIR)$(DOCDIR)/%)
	install -m 0755 $(BUILD)/eclusa $(DESTDIR)$(BINDIR)/eclusa
	install -m 0755 $(BUILD)/eclusa-netd $(BUILD)/eclusa-proxy $(BUILD)/eclusa-export $(DESTDIR)$(LIBEXECDIR)/
	ln -sf $(LIBEXECDIR)/eclusa-proxy $(DESTDIR)$(BINDIR)/eclusa-proxy
	ln -sf $(LIBEXECDIR)/eclusa-export $(DESTDIR)$(BINDIR)/eclusa-export
	$(foreach page,$(MANUAL),install -D -m 0644 $(page) $(DESTDIR)$(call installed_page,$(page)) &&) true
	for page in $(DOC_PAGES); do install -m 0644 $$page $(DESTDIR)$(DOCDIR)/$$page || exit 1; done
	for file in $(ALLOWLISTS); do install -D -m 0644 $$file $(DESTDIR)$(DATADIR)/$$file || exit 1; done
	for file in $(SIGMA); do install -D -m 0644 packaging/sigma/$$file $(DESTDIR)$(DATADIR)/sigma/$$file || exit 1; done
	install -d $(DESTDIR)$(UNITDIR)
	for file in $(UNITS); do sed 's,/usr/local/bin/,$(BINDIR)/,' packaging/$$file >$(DESTDIR)$(UNITDIR)/$$file && \
		chmod 0644 $(DESTDIR)$(UNITDIR)/$$file || exit 1; done
	install -m 0644 packaging/completion/eclusa.bash $(DESTDIR)$(COMPLETIONDIR)/eclusa
	install -m 0644 packaging/completion/eclusa-proxy.bash $(DESTDIR)$(COMPLETIONDIR)/eclusa-proxy
	install -m 0644 packaging/completion/eclusa-export.bash $(DESTDIR)$(COMPLETIONDIR)/eclusa-export
# With the PREFIX and DESTDIR of the install. What is not of this version stays, and so do audit logs.
uninstall:
	rm -f $(DESTDIR)$(BINDIR)/eclusa $(DESTDIR)$(LIBEXECDIR)/eclusa-netd $(DESTDIR)$(LIBEXECDIR)/eclusa-proxy $(DESTDIR)$(LIBEXECDIR)/eclusa-export \
		$(foreach page,$(MANUAL),$(DESTDIR)$(call installed_page,$(page))) \
		$(DOC_PAGES:%=$(DESTDIR)$(DOCDIR)/%) $(ALLOWLISTS:%=$(DESTDIR)$(DATADIR)/%) $(SIGMA:%=$(DESTDIR)$(DATADIR)/sigma/%) \
		$(UNITS:%=$(DESTDIR)$(UNITDIR)/%) \
		$(DESTDIR)$(COMPLETIONDIR)/eclusa $(DESTDIR)$(COMPLETIONDIR)/eclusa-proxy $(DESTDIR)$(BINDIR)/eclusa-proxy \
		$(DESTDIR)$(COMPLETIONDIR)/eclusa-export $(DESTDIR)$(BINDIR)/eclusa-export
	for folder in $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(DATADIR)/allowlists/common $(DESTDIR)$(DATADIR)/allowlists $(DESTDIR)$(DATADIR)/sigma \
		$(DESTDIR)$(DATADIR) \
		$(DOC_FOLDERS:%=$(DESTDIR)$(DOCDIR)/%) $(DESTDIR)$(DOCDIR); do \
		[ ! -d $$folder ] || rmdir --ignore-fail-on-non-empty $$folder; done

.PHONY: deps deps-test deps-bench deps-clients deps-programs deps-v2
deps deps-test deps-bench deps-clients deps-programs deps-v2:
	@packaging/deps.sh $@

# A make of its own after the packages are there: this one asked pkg-config before they were.
.PHONY: demo
demo: deps
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) ONLINE=$(ONLINE) demo/run.sh

.PHONY: format clean help print-flags
print-flags: # for tests/check.sh, which compiles without making objects
	@echo '$(subst ','\'',$(filter-out -g -fPIE,$(wordlist 2,999,$(COMPILE) $(PLACE))))'
format:
	clang-format -i $$(git ls-files '*.c' '*.h')
clean:
	rm -rf build
help:
	@echo "targets: all demo test test-v2 clients programs escape soak check bench san-test fuzz install uninstall deps deps-test deps-bench format clean"
	@echo "options: V=1 SAN=1 CC=clang BUILD= DESTDIR= PREFIX=    make demo ONLINE=1"

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
