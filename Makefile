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
	tidy layers check-clang man install uninstall setup clean

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

run: all ## start the target after a self-check; RUN_FOR=5s ends by itself
	@tools/run $(RUN_FOR)

test: test-tools all ## run all tests; ends with "N passed, N failed, N skipped"
	@tools/run-tests build

# What some tests run beside weft. Where it cannot be had those tests are skipped and say so.
test-tools:
	@tools/setup build && { { tools/setup test && tools/fio-source; } || true; }

asan: test-tools ## the tests under address and undefined behaviour sanitizers
	@tools/build asan && tools/run-tests build-asan

tsan: test-tools ## the tests under the thread sanitizer
	@tools/build tsan && tools/run-tests build-tsan

sim: all ## SEEDS simulated runs from SEED_BASE on in JOBS processes, or SEED=x alone (TRACE=1 tells all)
	@build/tests/sim/weft_sim $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --seed-base $(SEED_BASE) --jobs $(JOBS)) \
		$(if $(WORLD),--world $(WORLD)) $(if $(WITHOUT),--without $(WITHOUT)) \
		$(if $(COMMANDS),--commands $(COMMANDS)) $(if $(EVENTS),--events-max $(EVENTS)) \
		$(if $(SKIP),--skip $(SKIP)) $(if $(TRACE_DIR),--trace-dir $(TRACE_DIR))

sim-cover: ## what SEEDS simulated runs reach: lines, branches, statuses, states; in build-cover/
	@tools/sim-cover --seeds $(SEEDS) --seed-base $(SEED_BASE) --jobs $(JOBS)

sim-mutants: ## weft with one mistake at a time (tests/sim/mutants, or MUTANT=name): the simulator finds each; JOBS
	@tools/sim-mutants --jobs $(JOBS) $(MUTANT)

mutate: ## what the tests find of COUNT small mistakes in src/ (500, drawn by SEED): shares and survivors; JOBS
	@tools/setup build clang && tools/mutate prepare --jobs $(JOBS) --count $(COUNT) $(if $(SEED),--seed $(SEED)) && \
		tools/mutate run --jobs $(JOBS)

torture: test-tools all ## lose FAILOVERS paths under load (1000); no write may be lost or late; as root
	@tests/torture/torture --programs build/tests/torture --weft build/src/cli/weft \
		--failovers $(FAILOVERS) $(if $(SEED),--seed $(SEED))

chaos: test-tools all ## everything goes wrong for CHAOS_SECONDS (600), nothing may be lost; as root
	@tests/chaos/chaos --programs build/tests/torture --weft build/src/cli/weft --engine build/src/fio/libweft-fio.so \
		--seconds $(CHAOS_SECONDS) $(if $(SEED),--seed $(SEED)) || [ "$$? $(CI)" = "77 " ]

soak: all ## 1,000 hosts come, work and go for SOAK_SECONDS (600): nothing grows, nothing is stuck
	@tests/soak/soak --programs build/tests/soak --weft build/src/cli/weft --seconds $(SOAK_SECONDS) \
		$(if $(SEED),--seed $(SEED)) || [ "$$? $(CI)" = "77 " ]

nightly: ## what .ci/run has no time for: seeds, mutants, torture, chaos, soak, fuzzers, guests; hours; as root
	@$(MAKE) sim SEEDS=20000 JOBS=2 && $(MAKE) sim-mutants JOBS=2 && $(MAKE) torture && $(MAKE) chaos && $(MAKE) soak && \
		$(MAKE) fuzz FUZZ_SECONDS=3600 && $(MAKE) interop KERNEL=6.12 && $(MAKE) interop KERNEL=sid

fuzz: ## fuzz every parser for FUZZ_SECONDS in total
	@tools/build fuzz && tools/fuzz build-fuzz $(FUZZ_SECONDS)

fuzz-cover: ## branches of wire/ and tcp/ that the fuzzers' corpus in git reaches; below 95 % fails
	@tools/fuzz-cover

fio: test-tools all ## the I/O engine for fio, build/src/fio/libweft-fio.so
	@ls build/src/fio/libweft-fio.so

interop: all ## Linux's host and target of KERNEL against ours, in a guest
	@tools/interop --kernel $(KERNEL) && tools/interop-inside --kernel $(KERNEL)

dissect: all ## a captured session must be well-formed to tshark
	@tests/interop/dissect

bench: all ## weft beside its peers (SPDK_DIR=...); table, result.json and plots in build/bench
	@tools/setup bench && SPDK_DIR='$(SPDK_DIR)' bench/run --markdown $(BENCH)

bench-micro: all ## what the parts cost: PDUs, dispatch, turns, posts, CRC32C
	@build/bench/micro/micro

bench-guard: all ## instructions per command, against bench/instructions.limits
	@tools/setup guard && bench/instructions --check bench/instructions.limits

bench-policies: all ## path policies and hedged reads over links that are not alike; needs root
	@bench/policies --output build/policies.json $(BENCH)

bench-failover: all ## how long I/O stands still when a path goes, 200 times each; needs root
	@bench/failover --output build/failover.json $(BENCH)

cover: ## line and branch coverage of the tests, in build-cover/
	@tools/cover

tidy: ## format, sizes, leftovers, SPDX lines, scripts, manual pages
	@tools/setup build tidy && tools/tidy

layers: ## who includes whom, as docs/ARCHITECTURE.md says
	@tools/setup && tools/layers

check-clang: ## build with clang
	@tools/build clang

man: ## check the manual pages and format them into build/man/
	@tools/setup tidy && mkdir -p build/man && for p in docs/man/*.[1-8]; do \
		mandoc -T html -W warning "$$p" > "build/man/$$(basename "$$p").html" || exit 1; done

install: all ## install the program, libweft, manual pages and completions (PREFIX, DESTDIR)
	@tools/install '$(PREFIX)' '$(DESTDIR)'

uninstall: ## remove what the last install put there
	@ninja --quiet -C build uninstall && { [ "$$(id -u)" -ne 0 ] || ldconfig; }

setup: ## install everything that development needs
	@tools/setup dev

clean: ## remove all build folders
	@rm -rf build build-*
