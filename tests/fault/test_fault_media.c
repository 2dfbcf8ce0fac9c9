/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Nth operation of a scripted sequence fails, for N = 0, 1, … until the sequence runs without a
 * failure. A model of every block, kept by the promise of each rule, must agree with the medium
 * after each run: through the medium itself, and for files again after opening them without faults.
 * The sequence continues after the failure, as a host would.
 */
#include "media_harness.h"
#include "tap.h"

#include "base/prng.h"

#include <errno.h>

#define BLOCK        4096u
#define BLOCKS       64u
#define MEDIUM_BYTES (BLOCK * BLOCKS)
#define STEPS        24

static uint8_t *data;
static uint8_t *back;
static uint8_t *model;

struct step {
	enum media_kind kind;
	unsigned first, count; /* blocks */
	bool flag;             /* FUA for writes, may_discard for zeroes */
};

/* Overlapping on purpose, so that later reads see a step that was wrongly done or not done. */
static const struct step steps[STEPS] = {
	{MEDIA_WRITE, 0, 16, false},       {MEDIA_WRITE, 8, 16, true},
	{MEDIA_READ, 4, 16, false},        {MEDIA_FLUSH, 0, 0, false},
	{MEDIA_WRITE_ZEROES, 2, 5, false}, {MEDIA_READ, 0, 8, false},
	{MEDIA_WRITE, 40, 1, false},       {MEDIA_WRITE, 41, 3, false},
	{MEDIA_DISCARD, 10, 6, false},     {MEDIA_READ, 0, 32, false},
	{MEDIA_WRITE, 12, 2, false},       {MEDIA_WRITE_ZEROES, 39, 4, true},
	{MEDIA_READ, 32, 32, false},       {MEDIA_FLUSH, 0, 0, false},
	{MEDIA_WRITE, 56, 8, true},        {MEDIA_WRITE, 0, 64, false},
	{MEDIA_READ, 0, 64, false},        {MEDIA_DISCARD, 0, 1, false},
	{MEDIA_WRITE, 63, 1, false},       {MEDIA_WRITE_ZEROES, 30, 20, true},
	{MEDIA_READ, 0, 64, false},        {MEDIA_WRITE, 31, 7, false},
	{MEDIA_FLUSH, 0, 0, false},        {MEDIA_READ, 16, 48, false},
};

enum promise {
	PROMISE_NOTHING_DONE, /* fail, lose */
	PROMISE_HALF_DONE,    /* tear */
};

static int perform(struct media *media, unsigned index)
{
	const struct step *step = &steps[index];
	uint64_t offset = step->first * BLOCK;
	uint64_t len_bytes = step->count * BLOCK;
	struct iovec iov[2] = {{data, BLOCK}, {data + BLOCK, len_bytes - BLOCK}};
	struct prng prng;

	if (step->kind == MEDIA_READ)
		return harness_read(media, offset, back, len_bytes);
	if (step->kind == MEDIA_WRITE) {
		prng_seed(&prng, index + 1);
		prng_fill(&prng, data, len_bytes);
		return harness_iov(media, MEDIA_WRITE, offset, iov, step->count > 1 ? 2 : 1,
				   step->flag);
	}
	return harness_range(media, (struct harness_range){.kind = step->kind,
							   .offset = offset,
							   .len_bytes = len_bytes,
							   .is_fua = step->flag,
							   .may_discard = step->flag});
}

/* Applies the first `count` blocks of the step to the model; `data` holds the written bytes. */
static void apply(const struct step *step, unsigned count, bool is_discard_zero)
{
	uint8_t *at = model + step->first * BLOCK;

	if (step->kind == MEDIA_WRITE)
		memcpy(at, data, count * BLOCK);
	else if (step->kind == MEDIA_WRITE_ZEROES ||
		 (step->kind == MEDIA_DISCARD && is_discard_zero))
		memset(at, 0, count * BLOCK);
}

/* One run of the sequence; returns the number of steps that failed. */
static unsigned run_sequence(struct media *media, enum promise promise, int want_error)
{
	unsigned failures = 0;

	memset(model, 0, MEDIUM_BYTES);
	for (unsigned i = 0; i < STEPS; i++) {
		const struct step *step = &steps[i];
		int res = perform(media, i);

		if (res == 0) {
			apply(step, step->count, media->reads_zero_after_discard);
			if (step->kind == MEDIA_READ)
				EXPECT(memcmp(back, model + step->first * BLOCK,
					      step->count * BLOCK) == 0);
			continue;
		}
		failures++;
		EXPECT_EQ(want_error, res);
		if (promise == PROMISE_HALF_DONE)
			apply(step, step->count / 2, media->reads_zero_after_discard);
	}
	return failures;
}

static struct media *open_or_die(const char *spec)
{
	struct media *media = NULL;
	struct media_error error;

	if (media_open(spec, &media, &error) != 0) {
		printf("# %s: %s\n", spec, error.text);
		CHECK(!"a medium that must open");
	}
	return media;
}

static void expect_model(struct media *media)
{
	EXPECT_EQ(0, harness_read(media, 0, back, MEDIUM_BYTES));
	EXPECT(memcmp(back, model, MEDIUM_BYTES) == 0);
}

/* Runs with `rule` and :after=N for growing N. Returns the N at which nothing failed. */
static unsigned loop(const char *rule, enum promise promise, int want_error, const char *inner)
{
	bool is_file = strncmp(inner, "file:", 5) == 0;

	for (unsigned n = 0; n <= STEPS; n++) {
		unsigned failures;
		struct media *media;
		char spec[256];

		if (is_file)
			unlink(inner + 5);
		snprintf(spec, sizeof(spec), "fault:%s:count=1:after=%u@%s%s%u", rule, n, inner,
			 is_file ? ",size=" : "", MEDIUM_BYTES);
		media = open_or_die(spec);
		failures = run_sequence(media, promise, want_error);
		EXPECT(failures <= 1);
		/* Without a failure the rule is still armed and would hit this read. */
		if (failures == 1)
			expect_model(media);
		media_close(media);
		if (is_file) {
			media = open_or_die(inner);
			expect_model(media);
			media_close(media);
		}
		if (failures == 0)
			return n;
	}
	return UINT32_MAX;
}

static unsigned steps_of(enum media_kind kind)
{
	unsigned count = 0;

	for (unsigned i = 0; i < STEPS; i++)
		count += steps[i].kind == kind;
	return count;
}

static const char *file_spec(void)
{
	static char spec[128];

	snprintf(spec, sizeof(spec), "file:%s/store", harness_folder);
	return spec;
}

static void any_operation_of_memory_fails(void)
{
	EXPECT_EQ(STEPS, loop("fail:errno=ENOSPC", PROMISE_NOTHING_DONE, -ENOSPC, "mem:"));
}

static void any_operation_of_a_file_fails(void)
{
	EXPECT_EQ(STEPS, loop("fail", PROMISE_NOTHING_DONE, -EIO, file_spec()));
}

static void writes_of_memory_tear(void)
{
	EXPECT_EQ(steps_of(MEDIA_WRITE), loop("tear", PROMISE_HALF_DONE, -EIO, "mem:"));
}

static void writes_of_a_file_tear(void)
{
	EXPECT_EQ(steps_of(MEDIA_WRITE), loop("tear", PROMISE_HALF_DONE, -EIO, file_spec()));
}

static void flushes_fail_late(void)
{
	EXPECT_EQ(steps_of(MEDIA_FLUSH), loop("delay:op=flush:ms=1+fail:op=flush:errno=ETIMEDOUT",
					      PROMISE_NOTHING_DONE, -ETIMEDOUT, file_spec()));
}

/* A lost write is acknowledged, so only the content shows the loss. */
static void lost_writes_are_seen(void)
{
	struct media *media;
	char spec[128];

	/* The 64-block write of step 15: later steps do not overwrite all of its blocks. */
	snprintf(spec, sizeof(spec), "fault:lose:count=1:after=6@mem:%u", MEDIUM_BYTES);
	media = open_or_die(spec);
	for (unsigned i = 0; i <= 15; i++)
		EXPECT_EQ(0, perform(media, i));
	EXPECT_EQ(0, harness_read(media, 20 * BLOCK, back, BLOCK));
	EXPECT(memcmp(back, data + 20 * BLOCK, BLOCK) != 0);
	media_close(media);
}

int main(void)
{
	data = aligned_alloc(4096, MEDIUM_BYTES);
	back = aligned_alloc(4096, MEDIUM_BYTES);
	model = aligned_alloc(4096, MEDIUM_BYTES);
	CHECK(data && back && model);
	harness_folder_make("/tmp");
	harness_start();
	TAP_RUN(any_operation_of_memory_fails);
	TAP_RUN(any_operation_of_a_file_fails);
	TAP_RUN(writes_of_memory_tear);
	TAP_RUN(writes_of_a_file_tear);
	TAP_RUN(flushes_fail_late);
	TAP_RUN(lost_writes_are_seen);
	harness_stop();
	harness_folder_remove();
	free(data);
	free(back);
	free(model);
	return tap_end();
}
