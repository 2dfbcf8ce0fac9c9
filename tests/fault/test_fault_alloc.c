/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Nth allocation of target, host, media and transport fails, for N = 1, 2, … until the script
 * runs without a failure. One thread.
 *
 * The linker sends every malloc, calloc, realloc, aligned_alloc, strdup and mmap of the program
 * through the functions here (mmap is mmap64 as meson compiles it); the simulator's memory is left
 * out by defining its two functions here too. What was allocated and not freed when a run is over
 * is a leak, found without a sanitizer.
 */
#include "scene.h"
#include "tap.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LIVE_MAX 4096

void *__real_malloc(size_t len_bytes);
void *__real_calloc(size_t count, size_t len_bytes);
void *__real_realloc(void *memory, size_t len_bytes);
void *__real_aligned_alloc(size_t align_bytes, size_t len_bytes);
char *__real_strdup(const char *text);
void __real_free(void *memory);
void *__real_mmap64(void *at, size_t len_bytes, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t len_bytes);
void *__wrap_malloc(size_t len_bytes);
void *__wrap_calloc(size_t count, size_t len_bytes);
void *__wrap_realloc(void *memory, size_t len_bytes);
void *__wrap_aligned_alloc(size_t align_bytes, size_t len_bytes);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);
void *__wrap_mmap64(void *at, size_t len_bytes, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t len_bytes);

static bool is_counting;
static unsigned alloc_count;
static unsigned fail_at;
static bool has_failed;
static void *live[LIVE_MAX];
static unsigned live_count;
static int mapped_count;

/* ---- the simulator's memory ----------------------------------------------------------------- */

void *sim_alloc(size_t len_bytes)
{
	void *memory = __real_calloc(1, len_bytes);

	CHECK(memory != NULL);
	return memory;
}

void *sim_realloc(void *memory, size_t len_bytes)
{
	memory = __real_realloc(memory, len_bytes);
	CHECK(memory != NULL);
	return memory;
}

/* ---- everybody else's ----------------------------------------------------------------------- */

static bool must_fail(void)
{
	if (!is_counting || ++alloc_count != fail_at)
		return false;
	has_failed = true;
	errno = ENOMEM;
	return true;
}

static void *keep(void *memory)
{
	if (is_counting && memory) {
		CHECK(live_count < LIVE_MAX);
		live[live_count++] = memory;
	}
	return memory;
}

static void forget(const void *memory)
{
	/* Youngest first: that is where most are found. */
	for (unsigned i = live_count; memory && i-- > 0;) {
		if (live[i] == memory) {
			live[i] = live[--live_count];
			return;
		}
	}
}

void *__wrap_malloc(size_t len_bytes)
{
	return must_fail() ? NULL : keep(__real_malloc(len_bytes));
}

void *__wrap_calloc(size_t count, size_t len_bytes)
{
	return must_fail() ? NULL : keep(__real_calloc(count, len_bytes));
}

void *__wrap_realloc(void *memory, size_t len_bytes)
{
	if (must_fail())
		return NULL;
	forget(memory);
	return keep(__real_realloc(memory, len_bytes));
}

void *__wrap_aligned_alloc(size_t align_bytes, size_t len_bytes)
{
	return must_fail() ? NULL : keep(__real_aligned_alloc(align_bytes, len_bytes));
}

char *__wrap_strdup(const char *text)
{
	return must_fail() ? NULL : keep(__real_strdup(text));
}

void __wrap_free(void *memory)
{
	forget(memory);
	__real_free(memory);
}

void *__wrap_mmap64(void *at, size_t len_bytes, int prot, int flags, int fd, off_t offset)
{
	if (must_fail())
		return MAP_FAILED;
	mapped_count += is_counting;
	return __real_mmap64(at, len_bytes, prot, flags, fd, offset);
}

int __wrap_munmap(void *at, size_t len_bytes)
{
	mapped_count -= is_counting;
	return __real_munmap(at, len_bytes);
}

/* ---- the loop ------------------------------------------------------------------------------- */

static void play(const struct scene_options *options, unsigned n, struct scene_figures *figures)
{
	char label[64];

	snprintf(label, sizeof(label), "allocation %u fails, seed %" PRIu64, n, options->seed);
	/* Each play begins with zeroes. */
	if (options->file)
		unlink(options->file);
	is_counting = true;
	has_failed = false;
	alloc_count = 0;
	fail_at = n;
	EXPECT_EQ(0, scene_play(options, label, figures));
	is_counting = false;
	if (live_count > 0 || mapped_count != 0)
		printf("# %s: %u allocations and %d mappings are left\n", label, live_count,
		       mapped_count);
	EXPECT_EQ(0, live_count);
	EXPECT_EQ(0, mapped_count);
	live_count = 0;
	mapped_count = 0;
	EXPECT_EQ(0, figures->wrong_reads);
	EXPECT_EQ(0, figures->compare_misses);
}

static void loop(const struct scene_options *options)
{
	struct scene_figures figures;
	unsigned n = 0, effects = 0;

	do {
		play(options, ++n, &figures);
		effects += figures.setup_failures + figures.connect_failures + figures.losses +
				   figures.cmd_failures >
			   0;
	} while (has_failed && n < 2000);
	printf("# %u allocations, %u of their failures were seen by a user\n", n - 1, effects);
	EXPECT(!has_failed);
	/* Nothing fails that was not made to. */
	EXPECT_EQ(0, figures.setup_failures + figures.connect_failures + figures.losses +
			     figures.cmd_failures);
	EXPECT_EQ(1, figures.aborted);
	EXPECT(effects > n / 2);
}

static void any_allocation_fails(void)
{
	static const struct scene_options options = {.seed = 1, .sim = {.is_orderly = true}};

	loop(&options);
}

/* Short sends and receives: the paths that keep what could not go out or in yet. */
static void any_allocation_fails_on_a_narrow_network(void)
{
	struct scene_options options = {.seed = 2,
					.sim = {.window_max_bytes = 9000, .recv_max_bytes = 5000}};

	loop(&options);
	options.has_digests = true;
	loop(&options);
}

/* A volatile cache: it is flushed when the host shuts the controller down, and at the end. */
static void any_allocation_fails_with_a_file(void)
{
	char file[] = "/tmp/weft-fault-alloc-XXXXXX";
	struct scene_options options = {.seed = 3, .sim = {.is_orderly = true}, .file = file};
	int fd = mkstemp(file);

	CHECK(fd >= 0 && close(fd) == 0 && unlink(file) == 0);
	loop(&options);
	unlink(file);
}

int main(void)
{
	log_set_level(LOG_LEVEL_OFF);
	TAP_RUN(any_allocation_fails);
	TAP_RUN(any_allocation_fails_on_a_narrow_network);
	TAP_RUN(any_allocation_fails_with_a_file);
	return tap_end();
}
