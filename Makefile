# SPDX-License-Identifier: Apache-2.0
# A thin front for meson and the scripts in tools/. `make help` lists the targets.

SEEDS        ?= 200
SEED_BASE    ?= 1
SEED         ?=
JOBS         ?= 1
WORLD        ?=
WITHOUT      ?=
COMMANDS     ?=
EVENTS       ?=
SKIP         ?=
TRACE_DIR    ?=
MUTANT       ?=
TRACE        ?=
RUN_FOR      ?=
FUZZ_SECONDS ?= 60
FAILOVERS    ?= 1000
COUNT        ?= 500
CHAOS_SECONDS ?= 600
SOAK_SECONDS ?= 600
KERNEL       ?= 6.12
PREFIX       ?= /usr/local
DESTDIR      ?=
SPDK_DIR     ?=
BENCH        ?=
export TRACE

.DEFAULT_GOAL := all
.PHONY: all help run test test-tools asan tsan sim sim-cover sim-mutants mutate torture chaos soak nightly fuzz fuzz-cover fio interop dissect bench bench-micro bench-guard bench-policies bench-failover cover \
	tidy layers spine check-clang man install uninstall setup clean

all: ## build the program into build/ (the default)
	@tools/build release

help: ## list the targets and variables
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | \
		while IFS="$$(printf '\t')" read -r t h; do printf '  %-14s %s\n' "$$t" "$$h"; done
	@echo 'Variables: SEEDS SEED_BASE JOBS SEED WORLD TRACE=1 TRACE_DIR WITHOUT COMMANDS EVENTS SKIP (sim; see'
	@echo '  docs/testing.md), RUN_FOR=5s (run), FUZZ_SECONDS (fuzz),'
	@echo '  FAILOVERS SEED (torture), COUNT SEED JOBS (mutate), CHAOS_SECONDS SEED (chaos), SOAK_SECONDS SEED (soak),'
	@echo '  KERNEL=6.1|6.12|sid (interop), PREFIX DESTDIR (install), SPDK_DIR (bench: a built SPDK tree),'
	@echo '  BENCH (options of bench/run, such as --quick, or of bench/policies; see their --help)'

run: all ## self-check, then serve on 127.0.0.1:4420; RUN_FOR=5s stops after 5 s
	@tools/run $(RUN_FOR)

test: test-tools all ## run all tests; ends with "N passed, N failed, N skipped"
	@tools/run-tests build

# Programs that some tests need. Without them those tests are skipped, with the reason.
test-tools:
	@tools/setup build && { { tools/setup test && tools/fio-source; } || true; }

asan: test-tools ## run all tests under the address and undefined behaviour sanitizers
	@tools/build asan && tools/run-tests build-asan

tsan: test-tools ## run all tests under the thread sanitizer
	@tools/build tsan && tools/run-tests build-tsan

sim: all ## run SEEDS simulations from SEED_BASE on in JOBS processes, or one with SEED=x (TRACE=1 prints every step)
	@build/tests/sim/weft_sim $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --seed-base $(SEED_BASE) --jobs $(JOBS)) \
		$(if $(WORLD),--world $(WORLD)) $(if $(WITHOUT),--without $(WITHOUT)) \
		$(if $(COMMANDS),--commands $(COMMANDS)) $(if $(EVENTS),--events-max $(EVENTS)) \
		$(if $(SKIP),--skip $(SKIP)) $(if $(TRACE_DIR),--trace-dir $(TRACE_DIR))

sim-cover: ## coverage of SEEDS simulated runs: lines, branches, statuses, states; in build-cover/
	@tools/sim-cover --seeds $(SEEDS) --seed-base $(SEED_BASE) --jobs $(JOBS)

sim-mutants: ## check that the simulator finds each seeded bug (tests/sim/mutants, or MUTANT=name); JOBS
	@tools/sim-mutants --jobs $(JOBS) $(MUTANT)

mutate: ## measure which of COUNT small mistakes in src/ (500, drawn by SEED) the tests find; JOBS
	@tools/setup build clang && tools/mutate prepare --jobs $(JOBS) --count $(COUNT) $(if $(SEED),--seed $(SEED)) && \
		tools/mutate run --jobs $(JOBS)

torture: test-tools all ## lose FAILOVERS paths (1000) under load and check that no write is lost or late; needs root
	@tests/torture/torture --programs build/tests/torture --weft build/src/cli/weft \
		--failovers $(FAILOVERS) $(if $(SEED),--seed $(SEED))

chaos: test-tools all ## combine all faults for CHAOS_SECONDS (600) and check that nothing is lost; needs root
	@tests/chaos/chaos --programs build/tests/torture --weft build/src/cli/weft --engine build/src/fio/libweft-fio.so \
		--seconds $(CHAOS_SECONDS) $(if $(SEED),--seed $(SEED)) || [ "$$? $(CI)" = "77 " ]

soak: all ## connect and disconnect 1,000 hosts for SOAK_SECONDS (600); nothing may grow or hang
	@tests/soak/soak --programs build/tests/soak --weft build/src/cli/weft --seconds $(SOAK_SECONDS) \
		$(if $(SEED),--seed $(SEED)) || [ "$$? $(CI)" = "77 " ]

nightly: ## the long tests: seeds, mutants, torture, chaos, soak, fuzzers, guests; hours; needs root
	@$(MAKE) sim SEEDS=20000 JOBS=2 && $(MAKE) sim-mutants JOBS=2 && $(MAKE) torture && $(MAKE) chaos && $(MAKE) soak && \
		$(MAKE) fuzz FUZZ_SECONDS=3600 && $(MAKE) interop KERNEL=6.12 && $(MAKE) interop KERNEL=sid

fuzz: ## fuzz every parser for FUZZ_SECONDS in total
	@tools/build fuzz && tools/fuzz build-fuzz $(FUZZ_SECONDS)

fuzz-cover: ## check that the fuzzers' corpus reaches 95 % of the branches of wire/ and tcp/
	@tools/fuzz-cover

fio: test-tools all ## build the I/O engine for fio, build/src/fio/libweft-fio.so
	@ls build/src/fio/libweft-fio.so

interop: all ## test against the host and target of Linux KERNEL, in a guest
	@tools/interop --kernel $(KERNEL) && tools/interop-inside --kernel $(KERNEL)

dissect: all ## check with tshark that captured sessions are well-formed
	@tests/interop/dissect

bench: all ## measure weft beside its peers (SPDK_DIR=...); table, result.json and plots in build/bench
	@tools/setup bench && SPDK_DIR='$(SPDK_DIR)' bench/run --markdown $(BENCH)

bench-micro: all ## measure single parts: PDUs, dispatch, turns, posts, CRC32C
	@build/bench/micro/micro

bench-guard: all ## check instructions per command against bench/instructions.limits
	@tools/setup guard && bench/instructions --check bench/instructions.limits

bench-policies: all ## measure path policies and hedged reads over unequal links; needs root
	@bench/policies --output build/policies.json $(BENCH)

bench-failover: all ## measure how long I/O stands still when a path is lost, 200 times each; needs root
	@bench/failover --output build/failover.json $(BENCH)

cover: ## measure line and branch coverage of the tests, in build-cover/
	@tools/cover

tidy: ## check format, sizes, leftovers, SPDX lines, scripts, manual pages
	@tools/setup build tidy && tools/tidy

spine: ## check what a 4 KiB read takes against tools/spine and docs/ARCHITECTURE.md
	@tools/setup build && tools/spine --check

layers: ## check includes against the layers of docs/ARCHITECTURE.md
	@tools/setup && tools/layers

check-clang: ## build with clang
	@tools/build clang

man: ## check the manual pages and format them into build/man/
	@tools/setup tidy && mkdir -p build/man && for p in docs/man/*.[1-8]; do \
		mandoc -T html -W warning "$$p" > "build/man/$$(basename "$$p").html" || exit 1; done

install: all ## install the program, libweft, manual pages and completions (PREFIX, DESTDIR)
	@tools/install '$(PREFIX)' '$(DESTDIR)'

uninstall: ## remove what the last install wrote
	@ninja --quiet -C build uninstall && { [ "$$(id -u)" -ne 0 ] || ldconfig; }

setup: ## install all packages for development
	@tools/setup dev

clean: ## remove all build folders
	@rm -rf build build-*
