/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every kind of medium on a real reactor: file (in the temporary folder and on tmpfs, with 512 and
 * 4096-byte blocks), mem, null, and each rule of fault. An array beside the medium models the
 * content. Block devices need a guest and are tested there.
 */
#include "media_harness.h"
#include "tap.h"

#include "base/clock.h"
#include "base/prng.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define MIB        (1024u * 1024)
#define DATA_BYTES (2 * MIB)

static uint8_t *data; /* page-aligned scratch: DATA_BYTES each */
static uint8_t *back;
static uint8_t *model;
static struct media_error error;

static const char *spec_of(const char *file, const char *options)
{
	static char text[256];

	snprintf(text, sizeof(text), "file:%s/%s%s", harness_folder, file, options);
	return text;
}

static const char *path_of(const char *file)
{
	return spec_of(file, "") + strlen("file:");
}

static struct media *open_or_die(const char *spec)
{
	struct media *media = NULL;

	if (media_open(spec, &media, &error) != 0) {
		printf("# %s: %s\n", spec, error.text);
		CHECK(!"a medium that must open");
	}
	return media;
}

static void refuses(int want, const char *spec, const char *says)
{
	struct media *media = NULL;
	int res = media_open(spec, &media, &error);

	if (res != want || !strstr(error.text, says)) {
		printf("# %s: result %d, text \"%s\"\n", spec, res, error.text);
		tap_case_failed = true;
	}
	if (res == 0)
		media_close(media);
}

static void fill(uint8_t *buf, size_t len_bytes, uint64_t seed)
{
	struct prng prng;

	prng_seed(&prng, seed);
	prng_fill(&prng, buf, len_bytes);
}

static void expect_content(struct media *media, uint64_t offset, size_t len_bytes)
{
	memset(back, 0x5a, len_bytes);
	EXPECT_EQ(0, harness_read(media, offset, back, len_bytes));
	EXPECT(memcmp(back, model + offset, len_bytes) == 0);
}

/* Writes, zeroes, discards and flushes, in step with the model. The medium needs at least 2 MiB. */
static void exercise(struct media *media)
{
	uint32_t block = media->block_bytes;
	struct iovec iov[3];

	memset(model, 0, DATA_BYTES);
	expect_content(media, 0, DATA_BYTES);

	fill(data, DATA_BYTES, block);
	EXPECT_EQ(0, harness_write(media, 0, data, DATA_BYTES));
	memcpy(model, data, DATA_BYTES);
	expect_content(media, 0, DATA_BYTES);

	/* One block at an odd place, with FUA, from an odd block of the buffer. */
	fill(data, 64 * 1024, 77);
	iov[0] = (struct iovec){data + block, block};
	EXPECT_EQ(0, harness_iov(media, MEDIA_WRITE, 7 * block, iov, 1, true));
	memcpy(model + 7 * block, data + block, block);

	/* Several pieces, one of them empty, gathered and scattered. */
	iov[0] = (struct iovec){data + 8 * 4096, 3 * 4096};
	iov[1] = (struct iovec){data, 4096};
	iov[2] = (struct iovec){data + 4 * 4096, 2 * 4096};
	EXPECT_EQ(0, harness_iov(media, MEDIA_WRITE, 33 * block, iov, 3, false));
	memcpy(model + 33 * block, data + 8 * 4096, 3 * 4096);
	memcpy(model + 33 * block + 3 * 4096, data, 4096);
	memcpy(model + 33 * block + 4 * 4096, data + 4 * 4096, 2 * 4096);
	iov[0] = (struct iovec){back, 4096};
	iov[1] = (struct iovec){back + 64 * 4096, 2 * 4096};
	iov[2] = (struct iovec){back + 4096, 3 * 4096};
	EXPECT_EQ(0, harness_iov(media, MEDIA_READ, 33 * block, iov, 3, false));
	EXPECT(memcmp(back, model + 33 * block, 4096) == 0);
	EXPECT(memcmp(back + 64 * 4096, model + 33 * block + 4096, 2 * 4096) == 0);
	EXPECT(memcmp(back + 4096, model + 33 * block + 3 * 4096, 3 * 4096) == 0);

	EXPECT_EQ(0, harness_range(media, (struct harness_range){.kind = MEDIA_WRITE_ZEROES,
								 .offset = 3 * block,
								 .len_bytes = 5 * block}));
	memset(model + 3 * block, 0, 5 * block);
	EXPECT_EQ(0, harness_range(media, (struct harness_range){.kind = MEDIA_WRITE_ZEROES,
								 .offset = 101 * block,
								 .len_bytes = 301 * block,
								 .may_discard = true,
								 .is_fua = true}));
	memset(model + 101 * block, 0, 301 * block);
	EXPECT_EQ(0, harness_range(media, (struct harness_range){.kind = MEDIA_WRITE_ZEROES,
								 .offset = MIB + block,
								 .len_bytes = MIB / 4 + 3 * block,
								 .is_fua = true}));
	memset(model + MIB + block, 0, MIB / 4 + 3 * block);
	EXPECT_EQ(0, harness_range(media, (struct harness_range){.kind = MEDIA_DISCARD,
								 .offset = MIB / 2 + block,
								 .len_bytes = 129 * block}));
	if (media->reads_zero_after_discard)
		memset(model + MIB / 2 + block, 0, 129 * block);
	EXPECT_EQ(0, harness_range(media, (struct harness_range){.kind = MEDIA_FLUSH}));
	expect_content(media, 0, DATA_BYTES);
	/* The last block. */
	fill(data, block, 5);
	EXPECT_EQ(0, harness_write(media, media->size_bytes - block, data, block));
	EXPECT_EQ(0, harness_read(media, media->size_bytes - block, back, block));
	EXPECT(memcmp(data, back, block) == 0);
}

static void exercise_file(const char *name, const char *options, uint32_t block)
{
	struct media *media = open_or_die(spec_of(name, options));

	EXPECT_EQ(block, media->block_bytes);
	EXPECT_EQ(4 * MIB, media->size_bytes);
	EXPECT(media->has_volatile_cache);
	EXPECT(media->is_thin);
	EXPECT(!media->is_read_only);
	EXPECT(4096 % media->buffer_align_bytes == 0);
	EXPECT_STR(spec_of(name, options), media->spec);
	exercise(media);
	media_close(media);

	/* Opened without size=: the file exists, with the same content. */
	media = open_or_die(spec_of(name, block == 512 ? ",block=512" : ""));
	EXPECT_EQ(4 * MIB, media->size_bytes);
	expect_content(media, 0, DATA_BYTES);
	media_close(media);
}

static void files_of_4096_byte_blocks_keep_data(void)
{
	exercise_file("a4096", ",size=4M", 4096);
}

static void files_of_512_byte_blocks_keep_data(void)
{
	exercise_file("a512", ",size=4M,block=512", 512);
}

static void files_are_created_sparse_and_private(void)
{
	struct media *media = open_or_die(spec_of("sparse", ",size=1G"));
	struct stat st;

	EXPECT_EQ(0, stat(path_of("sparse"), &st));
	EXPECT_EQ(1024 * (int64_t)MIB, st.st_size);
	EXPECT(st.st_blocks * 512 < MIB);
	EXPECT_EQ(0600, st.st_mode & 0777);
	media_close(media);
}

static void files_grow_but_are_never_cut(void)
{
	struct media *media = open_or_die(spec_of("grow", ",size=2M"));

	fill(model, DATA_BYTES, 1);
	EXPECT_EQ(0, harness_write(media, 0, model, DATA_BYTES));
	media_close(media);

	media = open_or_die(spec_of("grow", ",size=3M"));
	EXPECT_EQ(3 * MIB, media->size_bytes);
	expect_content(media, 0, DATA_BYTES);
	media_close(media);

	refuses(-EINVAL, spec_of("grow", ",size=1M"), "/grow holds 3145728 bytes and size=1048576");
	refuses(-EINVAL, spec_of("grow", ",size=4M,readonly"), "readonly forbids growing");
	media = open_or_die(spec_of("grow", ",size=3M"));
	expect_content(media, 0, DATA_BYTES);
	media_close(media);
}

static void odd_sizes_are_rounded_down(void)
{
	struct media *media;

	close(open(path_of("odd"), O_CREAT | O_RDWR, 0600));
	refuses(-EINVAL, spec_of("odd", ""), "less than one block of 4096");
	EXPECT_EQ(0, truncate(path_of("odd"), 10000));
	media = open_or_die(spec_of("odd", ""));
	EXPECT_EQ(8192, media->size_bytes);
	media_close(media);
	media = open_or_die(spec_of("odd", ",block=512"));
	EXPECT_EQ(9728, media->size_bytes);
	media_close(media);
}

static void unfit_paths_are_refused(void)
{
	refuses(-ENOENT, spec_of("absent", ""), "/absent; add size=… to create it");
	refuses(-ENOENT, spec_of("absent", ",size=1M,readonly"), "readonly stores are not created");
	refuses(-ENOENT, spec_of("no/such/folder", ",size=1M"), "cannot create");
	refuses(-EINVAL, spec_of("small", ",size=512"), "less than one block");
	EXPECT_EQ(-1, access(path_of("small"), F_OK));
	refuses(-EINVAL, spec_of("", ""), "is a directory");
	refuses(-EINVAL, "file:/dev/zero", "is a character device");
	EXPECT_EQ(0, mkfifo(path_of("fifo"), 0600));
	refuses(-EINVAL, spec_of("fifo", ""), "is a pipe or socket");
}

static void a_file_serves_one_writer(void)
{
	struct media *first = open_or_die(spec_of("lock", ",size=1M"));
	struct media *second;

	refuses(-EWOULDBLOCK, spec_of("lock", ""), "have ended; try again");
	refuses(-EWOULDBLOCK, spec_of("lock", ",readonly"), "/lock is open in this target");
	media_close(first);
	first = open_or_die(spec_of("lock", ",readonly"));
	second = open_or_die(spec_of("lock", ",readonly"));
	EXPECT(first->is_read_only);
	EXPECT(!first->can_discard);
	EXPECT_EQ(0, harness_read(second, 0, back, 4096));
	refuses(-EWOULDBLOCK, spec_of("lock", ""), "/lock is open in this target");
	media_close(first);
	media_close(second);
	media_close(open_or_die(spec_of("lock", "")));
}

/* The first transfer lacks the missing half, and the rest then transfers nothing. */
static void a_file_that_shrank_gives_an_error(void)
{
	struct media *media = open_or_die(spec_of("shrink", ",size=1M"));
	struct iovec iov[2] = {{back, 8192}, {back + 8192, 8192}};

	EXPECT_EQ(0, truncate(path_of("shrink"), 4096));
	EXPECT_EQ(-EIO, harness_read(media, 0, back, 16384));
	EXPECT_EQ(-EIO, harness_iov(media, MEDIA_READ, 0, iov, 2, false));
	EXPECT_EQ(-EIO, harness_read(media, 8192, back, 4096));
	EXPECT_EQ(0, harness_read(media, 0, back, 4096));
	media_close(media);
}

/* Such a write would extend the file again, with a hole in place of data. */
static void nothing_is_written_to_a_file_that_was_cut(void)
{
	struct media *media = open_or_die(spec_of("cut", ",size=1M")), *next;
	struct media_error problem;
	struct stat st;

	fill(data, 16384, 5);
	EXPECT_EQ(0, harness_write(media, 0, data, 16384));
	EXPECT_EQ(0, harness_write(media, MIB / 2, data, 16384));
	/* The flush reads the size, so that no later write hides where the file was cut. */
	EXPECT_EQ(0, harness_range(media, (struct harness_range){.kind = MEDIA_FLUSH}));
	EXPECT(!media_problem(media, &problem));
	EXPECT_EQ(0, truncate(path_of("cut"), 8192));
	/* Write the last block at once: this write alone would restore the former size. */
	EXPECT_EQ(-EIO, harness_write(media, MIB - 4096, data, 4096));
	EXPECT_EQ(0, stat(path_of("cut"), &st));
	EXPECT_EQ(8192, st.st_size);
	EXPECT_EQ(-EIO, harness_write(media, 0, data, 4096));
	EXPECT_EQ(-EIO, harness_range(media, (struct harness_range){.kind = MEDIA_WRITE_ZEROES,
								    .len_bytes = 4096}));
	EXPECT_EQ(-EIO, harness_range(media, (struct harness_range){.kind = MEDIA_FLUSH}));
	EXPECT_EQ(-EIO, harness_read(media, MIB / 2, back, 4096));
	EXPECT_EQ(0, harness_read(media, 0, back, 8192));
	EXPECT(memcmp(back, data, 8192) == 0);
	EXPECT(media_problem(media, &problem));
	EXPECT(strstr(problem.text, "truncated from 1048576 to 8192 bytes") != NULL);
	/* size= does not fill the file with zeroes, nor does a file that others extend heal by
	 * itself. */
	EXPECT(media_reopen(media, spec_of("cut", ",size=2M"), &next, &problem) < 0);
	EXPECT_EQ(0, stat(path_of("cut"), &st));
	EXPECT_EQ(8192, st.st_size);
	EXPECT(media_is_current(media, spec_of("cut", ",size=1M")));
	EXPECT_EQ(0, truncate(path_of("cut"), MIB));
	EXPECT_EQ(-EIO, harness_write(media, 0, data, 4096));
	/* Restored: the next medium over the file has no memory of the cut. */
	EXPECT(!media_is_current(media, spec_of("cut", ",size=1M")));
	EXPECT_EQ(0, media_reopen(media, spec_of("cut", ",size=1M"), &next, &problem));
	EXPECT_EQ(0, harness_write(next, MIB / 2, data, 4096));
	EXPECT(!media_problem(next, &problem));
	media_close(media);
	media_close(next);
}

static void a_cut_is_seen_by_writes_and_flushes(void)
{
	struct media *media = open_or_die(spec_of("cut2", ",size=1M"));
	struct stat st;

	EXPECT_EQ(0, truncate(path_of("cut2"), 4096));
	EXPECT_EQ(-EIO, harness_write(media, MIB / 2, data, 4096));
	EXPECT_EQ(0, stat(path_of("cut2"), &st));
	EXPECT_EQ(4096, st.st_size);
	media_close(media);
	/* Written since the size was read: no block can be trusted. */
	media = open_or_die(spec_of("cut3", ",size=1M"));
	EXPECT_EQ(0, harness_write(media, 0, data, 4096));
	EXPECT_EQ(0, truncate(path_of("cut3"), 4096));
	EXPECT_EQ(-EIO, harness_range(media, (struct harness_range){.kind = MEDIA_FLUSH}));
	EXPECT_EQ(-EIO, harness_read(media, 0, back, 4096));
	media_close(media);
}

static void what_a_file_takes_is_known(void)
{
	struct media *media = open_or_die(spec_of("used", ",size=64M"));
	uint64_t before = media_used_bytes(media), after;

	fill(data, DATA_BYTES, 3);
	EXPECT_EQ(0, harness_write(media, 0, data, DATA_BYTES));
	EXPECT_EQ(0, harness_range(media, (struct harness_range){.kind = MEDIA_FLUSH}));
	after = media_used_bytes(media);
	EXPECT(after >= before + DATA_BYTES && after < 64 * MIB);
	media_close(media);
	media = open_or_die("mem:4M");
	EXPECT_EQ(4 * MIB, media_used_bytes(media));
	media_close(media);
	media = open_or_die("fault:delay:ms=1@null:8M");
	EXPECT_EQ(8 * MIB, media_used_bytes(media));
	media_close(media);
}

static void discards_free_space(void)
{
	struct media *media = open_or_die(spec_of("discard", ",size=4M"));
	struct stat before;
	struct stat after;

	fill(data, DATA_BYTES, 3);
	EXPECT_EQ(0, harness_write(media, 0, data, DATA_BYTES));
	EXPECT_EQ(0, harness_range(media, (struct harness_range){.kind = MEDIA_FLUSH}));
	EXPECT_EQ(0, stat(path_of("discard"), &before));
	EXPECT_EQ(0, harness_range(media, (struct harness_range){.kind = MEDIA_DISCARD,
								 .len_bytes = DATA_BYTES}));
	EXPECT_EQ(0, stat(path_of("discard"), &after));
	if (media->can_discard)
		EXPECT(after.st_blocks < before.st_blocks);
	EXPECT_EQ(4 * MIB, after.st_size);
	media_close(media);
}

static void memory_keeps_data(void)
{
	struct media *media = open_or_die("mem:4M");
	uint8_t *mapped;

	EXPECT_EQ(4096, media->block_bytes);
	EXPECT_EQ(1, media->buffer_align_bytes);
	EXPECT(!media->has_volatile_cache);
	EXPECT(media->reads_zero_after_discard);
	exercise(media);
	mapped = media->ops->map(media, 4096, 8192);
	EXPECT(memcmp(mapped, model + 4096, 8192) == 0);
	mapped[0] ^= 1;
	model[4096] ^= 1;
	expect_content(media, 0, 16384);
	media_close(media);

	media = open_or_die("mem:2097664,block=512");
	EXPECT_EQ(2097664, media->size_bytes);
	exercise(media);
	media_close(media);
}

/* From /proc/meminfo, or the usual 2 MiB. */
static unsigned long huge_page_kib(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long kib = 2048;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "Hugepagesize: %lu kB", &kib);
	if (file)
		fclose(file);
	return kib;
}

static void memory_without_huge_pages_says_so(void)
{
	struct media *media = NULL;
	char pages[64];

	snprintf(pages, sizeof(pages), "mem: cannot allocate %lu huge pages of %lu KiB",
		 (1ul << 40) / huge_page_kib(), huge_page_kib());
	/* 1 PiB: more than any machine has. */
	EXPECT(media_open("mem:1024T,huge", &media, &error) < 0);
	EXPECT_THAT(strstr(error.text, pages), "\"%s\", not \"%s\"", pages, error.text);
	EXPECT(strstr(error.text, "/proc/sys/vm/nr_hugepages") != NULL);
	refuses(-ENOMEM, "mem:1048576T", "choose a smaller size");
}

static void null_forgets(void)
{
	struct media *media = open_or_die("null:1T,block=512");

	EXPECT_EQ(512, media->block_bytes);
	EXPECT_EQ(1ull << 40, media->size_bytes);
	memset(model, 0, 8192);
	fill(data, 8192, 1);
	EXPECT_EQ(0, harness_write(media, 0, data, 8192));
	expect_content(media, 0, 8192);
	EXPECT_EQ(0, harness_range(media, (struct harness_range){.kind = MEDIA_FLUSH}));
	EXPECT_EQ(0, harness_range(media, (struct harness_range){.kind = MEDIA_WRITE_ZEROES,
								 .len_bytes = 4096}));
	EXPECT_EQ(0, harness_range(media, (struct harness_range){.kind = MEDIA_DISCARD,
								 .len_bytes = 4096}));
	media_close(media);
}

/* ---- fault rules ------------------------------------------------------------------------- */

static void fail_counts_and_spares_other_operations(void)
{
	struct media *media =
		open_or_die("fault:fail:op=write:after=2:count=3:errno=ENOSPC@mem:1M");

	memset(data, 1, 4096);
	for (int i = 0; i < 8; i++) {
		EXPECT_EQ(i >= 2 && i < 5 ? -ENOSPC : 0, harness_write(media, 0, data, 4096));
		EXPECT_EQ(0, harness_read(media, 0, back, 4096));
	}
	EXPECT_EQ(0, harness_range(media, (struct harness_range){.kind = MEDIA_FLUSH}));
	EXPECT(!media->ops->map);
	EXPECT_EQ(MIB, media->size_bytes);
	media_close(media);
}

static void a_failed_write_changes_nothing(void)
{
	struct media *media = open_or_die("fault:fail:op=write@mem:1M");

	memset(model, 0, 4096);
	EXPECT_EQ(-EIO, harness_write(media, 0, data, 4096));
	expect_content(media, 0, 4096);
	media_close(media);
}

static void fail_tells_operations_apart(void)
{
	static const struct {
		const char *spec;
		enum media_kind kind;
	} rows[] = {
		{"fault:fail:op=read@mem:1M", MEDIA_READ},
		{"fault:fail:op=write@mem:1M", MEDIA_WRITE},
		{"fault:fail:op=flush@mem:1M", MEDIA_FLUSH},
		{"fault:fail:op=zero@mem:1M", MEDIA_WRITE_ZEROES},
		{"fault:fail:op=discard@mem:1M", MEDIA_DISCARD},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		struct media *media = open_or_die(rows[i].spec);

		for (int kind = MEDIA_READ; kind <= MEDIA_DISCARD; kind++) {
			struct iovec iov = {data, 4096};
			bool has_data = kind == MEDIA_READ || kind == MEDIA_WRITE;
			int res = has_data
					  ? harness_iov(media, (enum media_kind)kind, 0, &iov, 1, 0)
					  : harness_range(media,
							  (struct harness_range){
								  .kind = (enum media_kind)kind});

			EXPECT_EQ(kind == (int)rows[i].kind ? -EIO : 0, res);
		}
		media_close(media);
	}
}

static void every_and_prob_choose(void)
{
	struct media *media = open_or_die("fault:fail:op=read:after=1:every=3@null:1M");
	int failures = 0;

	for (int i = 0; i < 10; i++) {
		int want = i == 3 || i == 6 || i == 9 ? -EIO : 0;

		EXPECT_EQ(want, harness_read(media, 0, back, 4096));
	}
	media_close(media);
	media = open_or_die("fault:fail:prob=25:seed=42@null:1M");
	for (int i = 0; i < 400; i++)
		failures += harness_read(media, 0, back, 4096) != 0;
	EXPECT(failures > 60 && failures < 140);
	media_close(media);
}

static void tear_writes_the_first_half(void)
{
	struct media *media = open_or_die("fault:tear:count=2@mem:1M");
	struct iovec iov[2] = {{data, 4096}, {data + 4096, 4 * 4096}};

	fill(data, 5 * 4096, 8);
	memset(model, 0, 8 * 4096);
	EXPECT_EQ(-EIO, harness_iov(media, MEDIA_WRITE, 0, iov, 2, false));
	memcpy(model, data, 2 * 4096); /* half of five, rounded down */
	expect_content(media, 0, 8 * 4096);
	EXPECT_EQ(-EIO, harness_write(media, 5 * 4096, data, 4096)); /* half of one, rounded down */
	expect_content(media, 0, 8 * 4096);
	EXPECT_EQ(0, harness_write(media, 5 * 4096, data, 4096));
	memcpy(model + 5 * 4096, data, 4096);
	expect_content(media, 0, 8 * 4096);
	media_close(media);
}

/* Reads the medium in the pause between the halves, and cancels the first write there. */
static void split_leaves_time_between_halves(void)
{
	struct media *media = open_or_die("fault:split:op=write:count=2:ms=3600000+"
					  "split:op=write:ms=20@mem:1M");
	struct iovec iov[3] = {{data, 4096}, {data + 4096, 2 * 4096}, {data + 3 * 4096, 2 * 4096}};
	struct harness_io hio = {
		.io = {.kind = MEDIA_WRITE, .len_bytes = 5 * 4096, .iov = iov, .iov_count = 3},
	};
	uint64_t start;

	fill(data, 5 * 4096, 8);
	memset(model, 0, 8 * 4096);
	harness_submit(&hio, media);
	memcpy(model, data, 2 * 4096); /* half of five, rounded down */
	expect_content(media, 0, 8 * 4096);
	harness_cancel(&hio);
	EXPECT_EQ(-ECANCELED, harness_wait(&hio));
	expect_content(media, 0, 8 * 4096);

	/* A single block has no halves. */
	EXPECT_EQ(0, harness_write(media, 6 * 4096, data, 4096));
	memcpy(model + 6 * 4096, data, 4096);
	expect_content(media, 0, 8 * 4096);

	start = clock_monotonic_ns();
	EXPECT_EQ(0, harness_iov(media, MEDIA_WRITE, 0, iov, 3, false));
	EXPECT(clock_monotonic_ns() - start >= 19 * NS_PER_MS);
	memcpy(model, data, 5 * 4096);
	expect_content(media, 0, 8 * 4096);
	media_close(media);
}

static void split_reads_come_in_halves(void)
{
	struct media *media = open_or_die("fault:split:op=read:ms=20@mem:1M");
	struct iovec into[2] = {{back, 2 * 4096}, {back + 2 * 4096, 4096}};
	struct iovec iov = {back, 2 * 4096};
	struct harness_io hio = {
		.io = {.kind = MEDIA_READ, .len_bytes = 2 * 4096, .iov = &iov, .iov_count = 1},
	};

	fill(data, 3 * 4096, 4);
	EXPECT_EQ(0, harness_write(media, 4096, data, 3 * 4096));
	EXPECT_EQ(0, harness_iov(media, MEDIA_READ, 4096, into, 2, false));
	EXPECT(memcmp(back, data, 3 * 4096) == 0);

	memset(data, 1, 2 * 4096);
	EXPECT_EQ(0, harness_write(media, 0, data, 2 * 4096));
	harness_submit(&hio, media);
	memset(data, 2, 2 * 4096);
	EXPECT_EQ(0, harness_write(media, 0, data, 2 * 4096));
	EXPECT_EQ(0, harness_wait(&hio));
	EXPECT(back[0] == 1 && back[4096] == 2);
	media_close(media);
}

static void corrupt_flips_one_bit(void)
{
	struct media *media = open_or_die("fault:corrupt:count=1:seed=3@mem:1M");
	int bits = 0;

	fill(data, 8192, 9);
	memcpy(model, data, 8192);
	EXPECT_EQ(0, harness_write(media, 0, data, 8192));
	EXPECT_EQ(0, harness_read(media, 0, back, 8192));
	for (int i = 0; i < 8192; i++)
		bits += __builtin_popcount(back[i] ^ data[i]);
	EXPECT_EQ(1, bits);
	expect_content(media, 0, 8192);
	media_close(media);
}

static void lose_acknowledges_and_forgets(void)
{
	struct media *media = open_or_die("fault:lose:after=1:count=1@mem:1M");

	fill(model, 4096, 1);
	EXPECT_EQ(0, harness_write(media, 0, model, 4096));
	fill(data, 4096, 2);
	EXPECT_EQ(0, harness_write(media, 0, data, 4096));
	expect_content(media, 0, 4096);
	EXPECT_EQ(0, harness_write(media, 0, data, 4096));
	memcpy(model, data, 4096);
	expect_content(media, 0, 4096);
	media_close(media);
}

static void delay_takes_its_time_and_can_be_cancelled(void)
{
	struct media *media = open_or_die("fault:delay:op=read:ms=20+delay:op=read:ms=10+"
					  "delay:op=write:ms=3600000@mem:1M");
	struct iovec iov = {data, 4096};
	struct harness_io hio = {
		.io = {.kind = MEDIA_WRITE, .len_bytes = 4096, .iov = &iov, .iov_count = 1},
	};
	uint64_t start = clock_monotonic_ns();

	memset(model, 0, 4096);
	expect_content(media, 0, 4096);
	EXPECT(clock_monotonic_ns() - start >= 29 * NS_PER_MS);

	memset(data, 1, 4096);
	harness_submit(&hio, media);
	harness_cancel(&hio);
	EXPECT_EQ(-ECANCELED, harness_wait(&hio));
	EXPECT_EQ(1, hio.calls);
	expect_content(media, 0, 4096);
	media_close(media);
}

static void rules_are_asked_in_order(void)
{
	struct media *media = open_or_die("fault:fail:count=1:errno=ENOSPC+"
					  "fail:count=1:errno=ETIMEDOUT@"
					  "fault:fail:count=1:errno=EREMOTEIO@null:1M");

	EXPECT_EQ(-ENOSPC, harness_read(media, 0, back, 4096));
	EXPECT_EQ(-ETIMEDOUT, harness_read(media, 0, back, 4096));
	EXPECT_EQ(-EREMOTEIO, harness_read(media, 0, back, 4096));
	EXPECT_EQ(0, harness_read(media, 0, back, 4096));
	media_close(media);
}

static void faults_wrap_files_too(void)
{
	struct media *media;
	char spec[300];

	snprintf(spec, sizeof(spec), "fault:fail:op=flush:count=1@%s",
		 spec_of("wrapped", ",size=4M"));
	media = open_or_die(spec);
	EXPECT_EQ(-EIO, harness_range(media, (struct harness_range){.kind = MEDIA_FLUSH}));
	exercise(media);
	media_close(media);
}

/* Many at once: each ends once and disturbs no other. */
static void many_operations_run_at_once(void)
{
	static struct harness_io ios[64];
	static struct iovec iovs[64];
	struct media *media = open_or_die(spec_of("many", ",size=4M"));

	fill(data, sizeof(ios) / sizeof(ios[0]) * 8192, 4);
	for (int pass = 0; pass < 2; pass++) {
		uint8_t *buf = pass == 0 ? data : back;

		for (unsigned i = 0; i < ARRAY_LEN(ios); i++) {
			iovs[i] = (struct iovec){buf + i * 8192, 8192};
			ios[i].io = (struct media_io){
				.kind = pass == 0 ? MEDIA_WRITE : MEDIA_READ,
				.offset = i * 8192,
				.len_bytes = 8192,
				.iov = &iovs[i],
				.iov_count = 1,
			};
			harness_submit(&ios[i], media);
		}
		for (unsigned i = 0; i < ARRAY_LEN(ios); i++) {
			EXPECT_EQ(0, harness_wait(&ios[i]));
			EXPECT_EQ(1, ios[i].calls);
		}
	}
	EXPECT(memcmp(data, back, ARRAY_LEN(ios) * 8192) == 0);
	media_close(media);
}

static void run_file_cases(const char *parent)
{
	printf("# files in %s\n", parent);
	harness_folder_make(parent);
	TAP_RUN(files_of_4096_byte_blocks_keep_data);
	TAP_RUN(files_of_512_byte_blocks_keep_data);
	TAP_RUN(files_are_created_sparse_and_private);
	TAP_RUN(files_grow_but_are_never_cut);
	TAP_RUN(odd_sizes_are_rounded_down);
	TAP_RUN(unfit_paths_are_refused);
	TAP_RUN(a_file_serves_one_writer);
	TAP_RUN(a_file_that_shrank_gives_an_error);
	TAP_RUN(nothing_is_written_to_a_file_that_was_cut);
	TAP_RUN(a_cut_is_seen_by_writes_and_flushes);
	TAP_RUN(what_a_file_takes_is_known);
	TAP_RUN(discards_free_space);
	TAP_RUN(faults_wrap_files_too);
	TAP_RUN(many_operations_run_at_once);
	harness_folder_remove();
}

int main(void)
{
	data = aligned_alloc(4096, DATA_BYTES);
	back = aligned_alloc(4096, DATA_BYTES);
	model = aligned_alloc(4096, DATA_BYTES);
	CHECK(data && back && model);
	harness_start();
	run_file_cases("/tmp");
	if (access("/dev/shm", W_OK) == 0)
		run_file_cases("/dev/shm");
	else
		tap_skip("files on tmpfs", "/dev/shm cannot be written");
	TAP_RUN(memory_keeps_data);
	TAP_RUN(memory_without_huge_pages_says_so);
	TAP_RUN(null_forgets);
	TAP_RUN(fail_counts_and_spares_other_operations);
	TAP_RUN(a_failed_write_changes_nothing);
	TAP_RUN(fail_tells_operations_apart);
	TAP_RUN(every_and_prob_choose);
	TAP_RUN(tear_writes_the_first_half);
	TAP_RUN(split_leaves_time_between_halves);
	TAP_RUN(split_reads_come_in_halves);
	TAP_RUN(corrupt_flips_one_bit);
	TAP_RUN(lose_acknowledges_and_forgets);
	TAP_RUN(delay_takes_its_time_and_can_be_cancelled);
	TAP_RUN(rules_are_asked_in_order);
	harness_stop();
	free(data);
	free(back);
	free(model);
	return tap_end();
}
