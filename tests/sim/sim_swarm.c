/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children that run seeds. Each child takes the next seed until none is left. A child whose seed
 * fails exits and is replaced, because a broken run may leave anything behind. What kills a child
 * (a failed CHECK, a sanitizer, the limit of CPU time) is the seed's verdict.
 *
 * The parent only waits and counts. A child's standard error goes to an unnamed file, from which
 * the parent reads the cause of a death; with TRACE=1 it is not redirected.
 */
#include "sim_driver.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_VIOLATED 91 /* exit status; the verdict has the reason */
#define CHILDREN_MAX  64
#define PROGRESS_S    10
#define WALL_FACTOR   10 /* limit of real time, as a multiple of the CPU time */
#define WORDS_BYTES   65536
#define FAILURES_MAX  200

/* Shared between the parent and one child at a time. */
struct swarm_slot {
	uint64_t job;
	bool is_running;
	struct sim_verdict verdict;
	struct sim_totals totals[SIM_WORLDS_MAX];
};

struct swarm_shared {
	_Atomic uint64_t next_job;
	_Atomic uint64_t done;
	struct swarm_slot slots[CHILDREN_MAX];
};

struct swarm_child {
	pid_t pid;    /* 0: none */
	int words_fd; /* file with the child's standard error; -1: not redirected */
};

struct swarm {
	const struct sim_driver *driver;
	const struct sim_job *jobs;
	uint64_t count;
	struct sim_sum *sum;
	struct swarm_shared *shared;
	struct swarm_child children[CHILDREN_MAX];
	bool is_over;
	uint64_t told_ns;
};

/* Defined only by a sanitizer with leak detection. */
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

static void *shared_alloc(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

static bool has_trace(void)
{
	const char *trace = getenv("TRACE");

	return trace && trace[0] == '1';
}

/* ---- in a child ------------------------------------------------------------------------------ */

static void limits_set(unsigned cpu_limit_s)
{
	struct itimerval limit = {.it_value.tv_sec = cpu_limit_s};

	CHECK(setitimer(ITIMER_PROF, &limit, NULL) == 0);
	alarm(cpu_limit_s * WALL_FACTOR);
}

static void child_begin(int words_fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (words_fd >= 0)
		CHECK(dup2(words_fd, STDERR_FILENO) == STDERR_FILENO);
}

static void seed_run(const struct sim_world_kind *world, const struct sim_scenario *scenario,
		     struct sim_counters *counters, struct sim_verdict *verdict)
{
	memset(verdict, 0, sizeof(*verdict));
	world->run(scenario, counters, verdict);
	if (verdict->is_ok && __lsan_do_recoverable_leak_check &&
	    __lsan_do_recoverable_leak_check() != 0) {
		verdict->is_ok = false;
		snprintf(verdict->what, sizeof(verdict->what), "memory was leaked");
	}
}

/* exit writes coverage data, but with a leak detector it would report the broken run's leaks. */
static _Noreturn void child_end_violated(void)
{
	if (__lsan_do_recoverable_leak_check)
		_exit(EXIT_VIOLATED);
	exit(EXIT_VIOLATED);
}

static _Noreturn void child_work(struct swarm *swarm, struct swarm_slot *slot)
{
	struct sim_scenario scenario = swarm->driver->scenario;

	for (;;) {
		uint64_t next = atomic_fetch_add(&swarm->shared->next_job, 1);
		const struct sim_job *job = &swarm->jobs[next];
		struct sim_totals *totals;

		if (next >= swarm->count)
			break;
		totals = &slot->totals[sim_world_index(job->world)];
		slot->job = next;
		slot->is_running = true;
		scenario.seed = job->seed;
		limits_set(swarm->driver->cpu_limit_s);
		seed_run(job->world, &scenario, &totals->counters, &slot->verdict);
		sim_totals_add(totals, &slot->verdict);
		atomic_fetch_add(&swarm->shared->done, 1);
		if (!slot->verdict.is_ok)
			child_end_violated();
		slot->is_running = false;
	}
	exit(0);
}

/* ---- deaths ---------------------------------------------------------------------------------- */

/* The line with the cause: of a sanitizer, of CHECK, or the last line. */
static const char *cause_find(char *words)
{
	static const char *const signs[] = {"SUMMARY: ", "runtime error: ", "check failed: "};
	char *line, *end;

	for (unsigned i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		char *at = strstr(words, signs[i]);

		if (!at)
			continue;
		for (line = at; line > words && line[-1] != '\n'; line--)
			;
		end = strchr(at, '\n');
		if (end)
			*end = 0;
		return line;
	}
	return "";
}

static void words_read(int fd, char words[WORDS_BYTES])
{
	ssize_t length = fd >= 0 ? pread(fd, words, WORDS_BYTES - 1, 0) : 0;

	words[length > 0 ? length : 0] = 0;
}

/* Fills the verdict of a child that died before doing so. */
static void death_judge(int status, int words_fd, bool tells, struct sim_verdict *verdict)
{
	static char words[WORDS_BYTES];
	const char *cause;

	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_VIOLATED)
		return;
	words_read(words_fd, words);
	if (tells)
		fputs(words, stderr);
	cause = cause_find(words);
	verdict->is_ok = false;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF)
		snprintf(verdict->what, sizeof(verdict->what), "does not end: CPU time is up");
	else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		snprintf(verdict->what, sizeof(verdict->what), "does not end: it stands still");
	else if (WIFSIGNALED(status))
		snprintf(verdict->what, sizeof(verdict->what), "crashed (%s): %.180s",
			 strsignal(WTERMSIG(status)), cause);
	else
		snprintf(verdict->what, sizeof(verdict->what), "crashed (status %d): %.180s",
			 WEXITSTATUS(status), cause);
}

static int words_open(void)
{
	int fd = has_trace() ? -1 : memfd_create("weft_sim words", MFD_CLOEXEC);

	CHECK(has_trace() || fd >= 0);
	return fd;
}

/* ---- one run --------------------------------------------------------------------------------- */

static void trace_begin(const char *path)
{
	CHECK(freopen(path, "w", stderr) != NULL);
	CHECK(setenv("TRACE", "1", 1) == 0);
	log_set_level(LOG_LEVEL_DEBUG);
}

static _Noreturn void child_run_one(const struct sim_world_kind *world,
				    const struct sim_scenario *scenario,
				    const struct sim_child_options *options,
				    struct swarm_slot *slot)
{
	struct sim_counters *counters = &slot->totals[0].counters;
	struct sim_verdict *verdict = &slot->verdict;
	uint64_t hash;

	limits_set(options->cpu_limit_s);
	if (options->trace_path)
		trace_begin(options->trace_path);
	seed_run(world, scenario, counters, verdict);
	hash = verdict->hash;
	if (verdict->is_ok && options->runs_twice) {
		seed_run(world, scenario, counters, verdict);
		if (verdict->is_ok && verdict->hash != hash) {
			verdict->is_ok = false;
			snprintf(verdict->what, sizeof(verdict->what),
				 "the second run was another one");
		}
	}
	fflush(stderr);
	_exit(verdict->is_ok ? 0 : EXIT_VIOLATED);
}

void sim_child_run(const struct sim_world_kind *world, const struct sim_scenario *scenario,
		   const struct sim_child_options *options, struct sim_verdict *ret_verdict)
{
	struct swarm_slot *slot = shared_alloc(sizeof(*slot));
	int words_fd = words_open();
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		child_begin(options->trace_path ? -1 : words_fd);
		child_run_one(world, scenario, options, slot);
	}
	while (waitpid(pid, &status, 0) < 0)
		CHECK(errno == EINTR);
	*ret_verdict = slot->verdict;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		death_judge(status, words_fd, false, ret_verdict);
	if (words_fd >= 0)
		close(words_fd);
	munmap(slot, sizeof(*slot));
}

/* ---- many ------------------------------------------------------------------------------------ */

static void child_start(struct swarm *swarm, unsigned index)
{
	struct swarm_child *child = &swarm->children[index];

	swarm->shared->slots[index].is_running = false;
	child->words_fd = words_open();
	fflush(NULL);
	child->pid = fork();
	CHECK(child->pid >= 0);
	if (child->pid == 0) {
		child_begin(child->words_fd);
		child_work(swarm, &swarm->shared->slots[index]);
	}
}

static void failure_add(struct swarm *swarm, const struct sim_job *job, const char *what)
{
	struct sim_sum *sum = swarm->sum;
	struct sim_failure *failure;

	sum->failures = realloc(sum->failures, (sum->failure_count + 1) * sizeof(*sum->failures));
	CHECK(sum->failures != NULL);
	failure = &sum->failures[sum->failure_count++];
	failure->job = *job;
	snprintf(failure->what, sizeof(failure->what), "%s", what);
	printf("# %s seed %" PRIu64 ": %s\n# replay: make sim WORLD=%s SEED=%" PRIu64 " TRACE=1\n",
	       job->world->name, job->seed, what, job->world->name, job->seed);
	fflush(stdout);
	if (swarm->driver->stops_at_first || sum->failure_count >= FAILURES_MAX)
		swarm->is_over = true;
}

static void child_ended(struct swarm *swarm, unsigned index, int status)
{
	struct swarm_child *child = &swarm->children[index];
	struct swarm_slot *slot = &swarm->shared->slots[index];
	bool is_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;

	child->pid = 0;
	if (!is_well) {
		if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_VIOLATED)
			atomic_fetch_add(&swarm->shared->done, 1);
		death_judge(status, child->words_fd, true, &slot->verdict);
		failure_add(swarm, &swarm->jobs[slot->job], slot->verdict.what);
	}
	if (child->words_fd >= 0)
		close(child->words_fd);
	if (swarm->is_over)
		atomic_store(&swarm->shared->next_job, swarm->count);
	else if (!is_well && atomic_load(&swarm->shared->next_job) < swarm->count)
		child_start(swarm, index);
}

static void progress_tell(struct swarm *swarm)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (now_ns - swarm->told_ns < PROGRESS_S * NS_PER_S)
		return;
	swarm->told_ns = now_ns;
	printf("# %" PRIu64 " of %" PRIu64 " seeds, %u failed\n", atomic_load(&swarm->shared->done),
	       swarm->count, swarm->sum->failure_count);
	fflush(stdout);
}

static void children_wait(struct swarm *swarm, unsigned child_count)
{
	struct timespec second = {.tv_sec = 1};
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	for (;;) {
		unsigned alive = 0;

		for (unsigned i = 0; i < child_count; i++) {
			int status;

			if (swarm->children[i].pid > 0 &&
			    waitpid(swarm->children[i].pid, &status, WNOHANG) > 0)
				child_ended(swarm, i, status);
			alive += swarm->children[i].pid > 0;
		}
		if (alive == 0)
			return;
		progress_tell(swarm);
		(void)sigtimedwait(&signals, NULL, &second);
	}
}

static double children_cpu_s(void)
{
	struct rusage usage;

	CHECK(getrusage(RUSAGE_CHILDREN, &usage) == 0);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

uint64_t sim_swarm_run(const struct sim_driver *driver, const struct sim_job *jobs, uint64_t count,
		       struct sim_sum *sum)
{
	struct swarm swarm = {.driver = driver, .jobs = jobs, .count = count, .sum = sum};
	unsigned child_count = driver->jobs < CHILDREN_MAX ? driver->jobs : CHILDREN_MAX;
	uint64_t began_ns = clock_monotonic_ns();
	double cpu_before_s = children_cpu_s();
	sigset_t signals, before;
	uint64_t done;

	if (child_count > count)
		child_count = (unsigned)count;
	swarm.shared = shared_alloc(sizeof(*swarm.shared));
	swarm.told_ns = began_ns;
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	CHECK(sigprocmask(SIG_BLOCK, &signals, &before) == 0);
	for (unsigned i = 0; i < child_count; i++)
		child_start(&swarm, i);
	children_wait(&swarm, child_count);
	CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
	for (unsigned i = 0; i < child_count; i++) {
		for (unsigned w = 0; sim_worlds[w]; w++)
			sim_totals_merge(&sum->totals[w], &swarm.shared->slots[i].totals[w]);
	}
	sum->cpu_s += children_cpu_s() - cpu_before_s;
	sum->real_s += (double)(clock_monotonic_ns() - began_ns) / 1e9;
	done = atomic_load(&swarm.shared->done);
	munmap(swarm.shared, sizeof(*swarm.shared));
	return done;
}
