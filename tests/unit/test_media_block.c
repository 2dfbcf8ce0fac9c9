/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file medium on block devices: loop devices over files in the temporary folder, with 512 and
 * 4096-byte blocks, on a real reactor. Needs the right to set up loop devices; without it every
 * case is skipped. Loop devices detach themselves when the last user closes them.
 */
#include "media_harness.h"
#include "tap.h"

#include "base/prng.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define DEVICE_BYTES (4u * 1024 * 1024)
#define TRIES        8 /* another program may take the free device first */

static uint8_t *data;
static uint8_t *back;
static uint8_t *model;
static struct media_error error;

static char device[32]; /* path of the loop device */
static int device_fd;   /* keeps the loop device attached */
static int backing_fd;

static int loop_attach(uint32_t block_bytes, uint32_t flags)
{
	struct loop_config config = {
		.fd = (uint32_t)backing_fd,
		.block_size = block_bytes,
		.info = {.lo_flags = LO_FLAGS_AUTOCLEAR | flags},
	};
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int res = -ENODEV;

	if (control < 0)
		return -errno;
	for (int i = 0; i < TRIES && res < 0; i++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE);

		snprintf(device, sizeof(device), "/dev/loop%d", number);
		device_fd =
			open(device, (flags & LO_FLAGS_READ_ONLY ? O_RDONLY : O_RDWR) | O_CLOEXEC);
		if (device_fd < 0) {
			res = -errno;
			continue;
		}
		res = ioctl(device_fd, LOOP_CONFIGURE, &config) < 0 ? -errno : 0;
		if (res < 0)
			close(device_fd);
	}
	close(control);
	return res;
}

static int device_make(uint32_t block_bytes, uint32_t flags)
{
	char path[128];
	int res;

	snprintf(path, sizeof(path), "%s/backing", harness_folder);
	backing_fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(backing_fd >= 0 && ftruncate(backing_fd, DEVICE_BYTES) == 0);
	res = loop_attach(block_bytes, flags);
	if (res < 0)
		close(backing_fd);
	return res;
}

static void device_drop(void)
{
	close(device_fd);
	close(backing_fd);
}

static const char *spec_with(const char *options)
{
	static char text[96];

	snprintf(text, sizeof(text), "file:%s%s", device, options);
	return text;
}

static struct media *open_or_die(const char *options)
{
	struct media *media = NULL;

	if (media_open(spec_with(options), &media, &error) != 0) {
		printf("# %s: %s\n", spec_with(options), error.text);
		CHECK(!"a medium that must open");
	}
	return media;
}

static void refuses(int want, const char *options, const char *says)
{
	struct media *media = NULL;
	int res = media_open(spec_with(options), &media, &error);

	if (res != want || !strstr(error.text, says)) {
		printf("# %s: result %d, text \"%s\"\n", spec_with(options), res, error.text);
		tap_case_failed = true;
	}
	if (res == 0)
		media_close(media);
}

static void expect_model(struct media *media)
{
	EXPECT_EQ(0, harness_read(media, 0, back, DEVICE_BYTES));
	EXPECT(memcmp(back, model, DEVICE_BYTES) == 0);
}

static void zero(struct media *media, uint64_t first, uint64_t count, bool may_discard)
{
	uint32_t block = media->block_bytes;

	EXPECT_EQ(0, harness_range(media, (struct harness_range){.kind = MEDIA_WRITE_ZEROES,
								 .offset = first * block,
								 .len_bytes = count * block,
								 .may_discard = may_discard,
								 .is_fua = true}));
	memset(model + first * block, 0, count * block);
}

static void exercise(struct media *media)
{
	uint32_t block = media->block_bytes;
	struct iovec iov[2] = {{data, 3 * 4096}, {data + 64 * 1024, 5 * 4096}};
	struct prng prng;

	prng_seed(&prng, block);
	prng_fill(&prng, data, DEVICE_BYTES);
	EXPECT_EQ(0, harness_write(media, 0, data, DEVICE_BYTES));
	memcpy(model, data, DEVICE_BYTES);
	expect_model(media);

	EXPECT_EQ(0, harness_iov(media, MEDIA_WRITE, 5 * block, iov, 2, true));
	memcpy(model + 5 * block, data, 3 * 4096);
	memcpy(model + 5 * block + 3 * 4096, data + 64 * 1024, 5 * 4096);
	zero(media, 3, 5, false);
	zero(media, 77, 301, true);
	EXPECT_EQ(0, harness_range(media, (struct harness_range){.kind = MEDIA_FLUSH}));
	expect_model(media);

	/* A discarded range may read as anything; the blocks around it stay. */
	EXPECT(media->can_discard);
	EXPECT(!media->reads_zero_after_discard);
	EXPECT_EQ(0, harness_range(media, (struct harness_range){.kind = MEDIA_DISCARD,
								 .offset = 400 * block,
								 .len_bytes = 16 * block}));
	EXPECT_EQ(0, harness_read(media, 400 * block, model + 400 * block, 16 * block));
	expect_model(media);
}

static void a_device_of_512_byte_blocks_keeps_data(void)
{
	struct media *media;

	CHECK(device_make(512, 0) == 0);
	media = open_or_die("");
	EXPECT_EQ(512, media->block_bytes);
	EXPECT_EQ(DEVICE_BYTES, media->size_bytes);
	EXPECT(!media->is_thin);
	EXPECT(4096 % media->buffer_align_bytes == 0);
	EXPECT(media->optimal_io_bytes >= 512);
	exercise(media);
	media_close(media);
	media = open_or_die(",block=4096");
	EXPECT_EQ(4096, media->block_bytes);
	expect_model(media);
	exercise(media);
	media_close(media);
	device_drop();
}

static void a_device_of_4096_byte_blocks_keeps_data(void)
{
	struct media *media;

	CHECK(device_make(4096, 0) == 0);
	media = open_or_die("");
	EXPECT_EQ(4096, media->block_bytes);
	exercise(media);
	media_close(media);
	refuses(-EINVAL, ",block=512", "block=512 is smaller than the blocks of /dev/loop");
	refuses(-EINVAL, ",size=4M", "has its own size");
	device_drop();
}

static void a_device_serves_one_writer(void)
{
	struct media *first;
	struct media *second;

	CHECK(device_make(512, 0) == 0);
	first = open_or_die("");
	refuses(-EBUSY, "", "is in use");
	media_close(first);
	first = open_or_die(",readonly");
	second = open_or_die(",readonly");
	EXPECT(first->is_read_only);
	EXPECT(!first->can_discard);
	EXPECT_EQ(0, harness_read(second, 0, back, 4096));
	media_close(first);
	media_close(second);
	device_drop();
}

static void a_locked_device_wants_readonly(void)
{
	struct media *media;

	CHECK(device_make(512, LO_FLAGS_READ_ONLY) == 0);
	EXPECT(media_open(spec_with(""), &media, &error) < 0);
	EXPECT(strstr(error.text, "add readonly") != NULL);
	media = open_or_die(",readonly");
	EXPECT_EQ(0, harness_read(media, 0, back, 4096));
	EXPECT(!media->has_volatile_cache);
	media_close(media);
	device_drop();
}

/* The kernel's report of the cache is passed on. Root can change it in sysfs. */
static void the_write_cache_is_reported(void)
{
	static const char *const words[] = {"write through", "write back"};
	char path[96];

	CHECK(device_make(512, 0) == 0);
	snprintf(path, sizeof(path), "/sys/block/%s/queue/write_cache", device + strlen("/dev/"));
	for (unsigned i = 0; i < ARRAY_LEN(words); i++) {
		struct media *media;
		char now[32] = "";
		FILE *attribute = fopen(path, "r+e");

		if (attribute) {
			fputs(words[i], attribute);
			fflush(attribute);
			rewind(attribute);
		} else {
			attribute = fopen(path, "re"); /* sysfs may be mounted read-only */
		}
		CHECK(attribute);
		CHECK(fgets(now, sizeof(now), attribute));
		fclose(attribute);
		media = open_or_die("");
		EXPECT_EQ(strncmp(now, "write back", 10) == 0, media->has_volatile_cache);
		media_close(media);
	}
	device_drop();
}

static const struct {
	const char *name;
	void (*fn)(void);
} cases[] = {
	{"a_device_of_512_byte_blocks_keeps_data", a_device_of_512_byte_blocks_keeps_data},
	{"a_device_of_4096_byte_blocks_keeps_data", a_device_of_4096_byte_blocks_keeps_data},
	{"a_device_serves_one_writer", a_device_serves_one_writer},
	{"a_locked_device_wants_readonly", a_locked_device_wants_readonly},
	{"the_write_cache_is_reported", the_write_cache_is_reported},
};

int main(void)
{
	int res;

	data = aligned_alloc(4096, DEVICE_BYTES);
	back = aligned_alloc(4096, DEVICE_BYTES);
	model = aligned_alloc(4096, DEVICE_BYTES);
	CHECK(data && back && model);
	harness_folder_make("/tmp");
	res = device_make(512, 0);
	if (res == 0)
		device_drop();
	harness_start();
	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		if (res == 0)
			tap_run(cases[i].name, cases[i].fn);
		else
			tap_skip(cases[i].name, "loop devices cannot be set up here");
	}
	harness_stop();
	harness_folder_remove();
	free(data);
	free(back);
	free(model);
	return tap_end();
}
