/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Media that change while they are served: a second medium over the same store, larger or with
 * other blocks, beside the first. Impossible changes are refused with a reason. Changes for a
 * medium that is never served are undone. When a file is cut, the lost blocks fail and the rest
 * works.
 */
#include "media_harness.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define BLOCK 4096u

static struct media_error error;
static uint8_t *buf;

static char *spec_of(const char *name, const char *options)
{
	static char texts[4][256];
	static unsigned next;
	char *text = texts[next++ % 4];

	snprintf(text, 256, "file:%s/%s%s", harness_folder, name, options);
	return text;
}

static struct media *open_good(const char *spec)
{
	struct media *media = NULL;
	int res = media_open(spec, &media, &error);

	if (res < 0)
		printf("# %s: %s\n", spec, error.text);
	EXPECT_EQ(0, res);
	return media;
}

static struct media *reopen_good(struct media *media, const char *spec)
{
	struct media *next = NULL;
	int res = media_reopen(media, spec, &next, &error);

	if (res < 0)
		printf("# %s: %s\n", spec, error.text);
	EXPECT_EQ(0, res);
	return next;
}

static void expect_refusal(struct media *media, const char *spec, const char *wanted)
{
	struct media *next = NULL;

	EXPECT(media_reopen(media, spec, &next, &error) < 0);
	if (!strstr(error.text, wanted)) {
		printf("# \"%s\" is not said, but: %s\n", wanted, error.text);
		tap_case_failed = true;
	}
}

static uint64_t file_bytes(const char *name)
{
	char path[256];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", harness_folder, name);
	return stat(path, &st) == 0 ? (uint64_t)st.st_size : UINT64_MAX;
}

static int write_byte(struct media *media, uint64_t offset, uint8_t value)
{
	memset(buf, value, BLOCK);
	return harness_write(media, offset, buf, BLOCK);
}

static bool reads_byte(struct media *media, uint64_t offset, uint8_t value)
{
	memset(buf, ~value, BLOCK);
	return harness_read(media, offset, buf, BLOCK) == 0 && buf[0] == value &&
	       buf[BLOCK - 1] == value;
}

static void grows(const char *small, const char *large)
{
	struct media *first = open_good(small), *second;

	EXPECT_EQ(0, write_byte(first, 0, 7));
	EXPECT(media_is_current(first, small));
	EXPECT(!media_is_current(first, large));
	second = reopen_good(first, large);
	if (!second)
		return;
	EXPECT_EQ(1 << 20, first->size_bytes);
	EXPECT_EQ(3 << 20, second->size_bytes);
	EXPECT_STR(large, second->spec);
	/* Both media see each other's writes, and new blocks read as zeroes. */
	EXPECT(reads_byte(second, 0, 7));
	EXPECT(reads_byte(second, (3 << 20) - BLOCK, 0));
	EXPECT_EQ(0, write_byte(second, (3 << 20) - BLOCK, 9));
	EXPECT_EQ(0, write_byte(first, BLOCK, 8));
	media_close(first);
	EXPECT(reads_byte(second, BLOCK, 8));
	EXPECT(reads_byte(second, (3 << 20) - BLOCK, 9));
	/* The second medium can be reopened too. */
	first = reopen_good(second, large);
	media_close(second);
	EXPECT(reads_byte(first, BLOCK, 8));
	media_close(first);
}

static void stores_grow_under_two_media(void)
{
	grows(spec_of("grow", ",size=1M"), spec_of("grow", ",size=3M"));
	grows("mem:1M", "mem:3M");
	grows("fault:delay:ms=1:count=1@mem:1M", "fault:delay:ms=1:count=1@mem:3M");
	EXPECT_EQ(3 << 20, file_bytes("grow"));
}

static void null_grows_too(void)
{
	struct media *first = open_good("null:1M"), *second = reopen_good(first, "null:2T");

	EXPECT_EQ(2ull << 40, second->size_bytes);
	expect_refusal(second, "null:1M", "cannot shrink");
	media_close(first);
	media_close(second);
}

static void nothing_shrinks(void)
{
	struct media *file = open_good(spec_of("shrink", ",size=2M"));
	struct media *mem = open_good("mem:2M");

	expect_refusal(file, spec_of("shrink", ",size=1M"), "would cut it");
	EXPECT_EQ(2 << 20, file_bytes("shrink"));
	expect_refusal(mem, "mem:1M", "cannot shrink to 1048576");
	media_close(file);
	media_close(mem);
}

static void memory_grows_as_far_as_there_is_room(void)
{
	struct media *mem = open_good("mem:1M"), *largest = reopen_good(mem, "mem:4M");

	expect_refusal(largest, "mem:5M", "cannot grow beyond 4194304 bytes");
	expect_refusal(largest, "mem:4M,huge", "\"huge\" cannot change");
	media_close(mem);
	media_close(largest);
}

/* Thousands of small media are packed side by side, for the sake of huge pages. */
static void of_many_small_media_the_first_ones_grow(void)
{
	struct media *many[400], *grown, *large;

	for (unsigned i = 0; i < ARRAY_LEN(many); i++)
		many[i] = open_good("mem:64K");
	grown = reopen_good(many[0], "mem:128K");
	media_close(grown);
	expect_refusal(many[ARRAY_LEN(many) - 1], "mem:128K", "cannot grow beyond 65536 bytes");
	large = open_good("mem:2M");
	grown = reopen_good(large, "mem:8M");
	media_close(grown);
	media_close(large);
	for (unsigned i = 0; i < ARRAY_LEN(many); i++)
		media_close(many[i]);
	/* Closed media free their room. */
	many[0] = open_good("mem:64K");
	grown = reopen_good(many[0], "mem:256K");
	media_close(grown);
	media_close(many[0]);
}

static void blocks_can_change(void)
{
	struct media *first = open_good(spec_of("blocks", ",size=1M"));
	struct media *small, *large;

	EXPECT_EQ(0, write_byte(first, 0, 5));
	small = reopen_good(first, spec_of("blocks", ",size=1M,block=512"));
	EXPECT_EQ(512, small->block_bytes);
	EXPECT(reads_byte(small, 0, 5));
	memset(buf, 6, 512);
	EXPECT_EQ(0, harness_write(small, 512, buf, 512));
	/* The first medium still writes whole blocks of its own size. */
	EXPECT_EQ(0, write_byte(first, BLOCK, 4));
	EXPECT_EQ(0, harness_read(first, 0, buf, BLOCK));
	EXPECT(buf[0] == 5 && buf[512] == 6 && buf[1024] == 5);
	media_close(first);
	large = reopen_good(small, spec_of("blocks", ",size=1M,block=4096"));
	media_close(small);
	EXPECT_EQ(BLOCK, large->block_bytes);
	EXPECT(reads_byte(large, BLOCK, 4));
	media_close(large);
}

static void writing_can_be_forbidden_but_not_allowed(void)
{
	struct media *media = open_good(spec_of("mode", ",size=1M"));
	struct media *locked = reopen_good(media, spec_of("mode", ",readonly")), *free_again;

	EXPECT(locked->is_read_only);
	free_again = reopen_good(locked, spec_of("mode", ""));
	EXPECT(!free_again->is_read_only);
	media_close(media);
	media_close(locked);
	media_close(free_again);
	media = open_good(spec_of("mode", ",readonly"));
	expect_refusal(media, spec_of("mode", ""), "was opened readonly");
	media_close(media);
}

static void faults_come_and_go(void)
{
	struct media *plain = open_good("mem:1M"), *faulty, *again;

	EXPECT_EQ(0, write_byte(plain, 0, 3));
	faulty = reopen_good(plain, "fault:fail:op=read@mem:1M");
	EXPECT_EQ(-EIO, harness_read(faulty, 0, buf, BLOCK));
	again = reopen_good(faulty, "mem:1M");
	media_close(plain);
	media_close(faulty);
	EXPECT(reads_byte(again, 0, 3));
	media_close(again);
}

static void what_was_not_served_is_taken_back(void)
{
	struct media *first = open_good(spec_of("undo", ",size=1M")), *second;

	second = reopen_good(first, spec_of("undo", ",size=2M"));
	EXPECT_EQ(2 << 20, file_bytes("undo"));
	EXPECT(media_undo(second));
	media_close(second);
	EXPECT_EQ(1 << 20, file_bytes("undo"));
	EXPECT_EQ(0, write_byte(first, (1 << 20) - BLOCK, 1));
	media_close(first);
	/* An existing file stays, a created one is removed. */
	first = open_good(spec_of("undo", ",size=1M"));
	EXPECT(media_undo(first));
	media_close(first);
	EXPECT_EQ(1 << 20, file_bytes("undo"));
	first = open_good(spec_of("made", ",size=1M"));
	EXPECT_EQ(1 << 20, file_bytes("made"));
	EXPECT(media_undo(first));
	/* A write that comes late must not be acknowledged. */
	EXPECT_EQ(-EIO, write_byte(first, 0, 1));
	EXPECT(media_undo(first));
	media_close(first);
	EXPECT_EQ(UINT64_MAX, file_bytes("made"));
}

static void what_was_written_is_not_taken_back(void)
{
	struct media *first = open_good(spec_of("kept", ",size=1M")), *second, *third;

	EXPECT_EQ(0, write_byte(first, 0, 1));
	EXPECT(!media_undo(first));
	EXPECT_EQ(0, write_byte(first, BLOCK, 1));
	EXPECT(reads_byte(first, 0, 1));
	EXPECT_EQ(1 << 20, file_bytes("kept"));
	/* Writes below the former end survive the cut. */
	second = reopen_good(first, spec_of("kept", ",size=2M"));
	EXPECT_EQ(0, write_byte(second, (1 << 20) - BLOCK, 2));
	EXPECT(media_undo(second));
	EXPECT_EQ(1 << 20, file_bytes("kept"));
	EXPECT_EQ(0, write_byte(second, 0, 3));
	EXPECT_EQ(-EIO, write_byte(second, 1 << 20, 3));
	EXPECT_EQ(1 << 20, file_bytes("kept"));
	media_close(second);
	EXPECT(reads_byte(first, (1 << 20) - BLOCK, 2));
	/* Writes beyond it keep the file, and other sizes are possible. */
	second = reopen_good(first, spec_of("kept", ",size=4M"));
	EXPECT_EQ(0, write_byte(second, (2 << 20) - BLOCK, 4));
	EXPECT(!media_undo(second));
	media_close(second);
	EXPECT_EQ(4 << 20, file_bytes("kept"));
	second = reopen_good(first, spec_of("kept", ",size=2M"));
	EXPECT_EQ(2 << 20, second->size_bytes);
	EXPECT(reads_byte(second, (2 << 20) - BLOCK, 4));
	third = reopen_good(second, spec_of("kept", ",size=2M,block=512"));
	EXPECT_EQ(2 << 20, third->size_bytes);
	media_close(first);
	media_close(second);
	media_close(third);
}

static void a_file_without_a_size_is_followed(void)
{
	struct media *first, *second;
	char path[256];

	media_close(open_good(spec_of("follow", ",size=1M")));
	first = open_good(spec_of("follow", ""));
	snprintf(path, sizeof(path), "%s/follow", harness_folder);
	EXPECT(media_is_current(first, spec_of("follow", "")));
	EXPECT_EQ(0, truncate(path, 2 << 20));
	EXPECT(!media_is_current(first, spec_of("follow", "")));
	second = reopen_good(first, spec_of("follow", ""));
	EXPECT_EQ(2 << 20, second->size_bytes);
	EXPECT(media_is_current(second, spec_of("follow", "")));
	media_close(first);
	media_close(second);
}

static void what_was_cut_off_a_file_fails(void)
{
	struct media *media = open_good(spec_of("cut", ",size=1M")), *next;
	char path[256];

	snprintf(path, sizeof(path), "%s/cut", harness_folder);
	EXPECT_EQ(0, write_byte(media, 0, 1));
	EXPECT_EQ(0, write_byte(media, 2 * BLOCK, 2));
	/* Cut in the middle of the second block. */
	EXPECT_EQ(0, truncate(path, BLOCK + 1000));
	EXPECT(reads_byte(media, 0, 1));
	EXPECT_EQ(-EIO, harness_read(media, BLOCK, buf, BLOCK));
	EXPECT_EQ(-EIO, harness_read(media, 2 * BLOCK, buf, BLOCK));
	EXPECT_EQ(-EIO, harness_read(media, 0, buf, 4 * BLOCK));
	EXPECT_EQ(-EIO, harness_read(media, (1 << 20) - BLOCK, buf, BLOCK));
	/* The medium stays in service and cannot be reopened with the smaller size. */
	EXPECT(media_is_current(media, spec_of("cut", ",size=1M")));
	EXPECT(media_reopen(media, spec_of("cut", ""), &next, &error) == -EINVAL);
	EXPECT(strstr(error.text, "shrank from 1048576 to 4096 bytes") != NULL);
	media_close(media);
}

/* The file is locked for other openers until the last medium over it is closed. */
static void the_lock_is_of_all_media(void)
{
	struct media *first = open_good(spec_of("lock", ",size=1M")), *second, *stranger;

	second = reopen_good(first, spec_of("lock", ",size=1M,block=512"));
	media_close(first);
	EXPECT(media_open(spec_of("lock", ""), &stranger, &error) < 0);
	media_close(second);
	media_close(open_good(spec_of("lock", "")));
}

int main(void)
{
	CHECK(posix_memalign((void **)&buf, BLOCK, 16 * BLOCK) == 0);
	harness_start();
	harness_folder_make("/tmp");
	TAP_RUN(stores_grow_under_two_media);
	TAP_RUN(null_grows_too);
	TAP_RUN(nothing_shrinks);
	TAP_RUN(memory_grows_as_far_as_there_is_room);
	TAP_RUN(of_many_small_media_the_first_ones_grow);
	TAP_RUN(blocks_can_change);
	TAP_RUN(writing_can_be_forbidden_but_not_allowed);
	TAP_RUN(faults_come_and_go);
	TAP_RUN(what_was_not_served_is_taken_back);
	TAP_RUN(what_was_written_is_not_taken_back);
	TAP_RUN(a_file_without_a_size_is_followed);
	TAP_RUN(what_was_cut_off_a_file_fails);
	TAP_RUN(the_lock_is_of_all_media);
	harness_folder_remove();
	harness_stop();
	free(buf);
	return tap_end();
}
