/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every request of libweft and its errors against a live target: written data is read back, in one
 * command and split, in many pieces; invalid requests are refused at once; errors of the target
 * have the errno that weft.h documents and the controller's status.
 */
#include "lib_world.h"

static struct weft *weft;
static struct weft_subsystem *subsystem;
static struct weft_ns *small, *big;

/* Runs a request with one piece of data. */
static int run_one(struct weft_ns *ns, struct weft_request *request, void *bytes, size_t count)
{
	struct iovec iov = {bytes, count};

	request->iov = &iov;
	request->iov_count = 1;
	return weft_run(ns, request);
}

static void reads_what_was_written(void)
{
	uint8_t out[4096], in[4096];

	world_fill(out, sizeof(out), 1);
	EXPECT_EQ(0, weft_write(small, out, 100, 8, 0));
	EXPECT_EQ(0, weft_read(small, in, 100, 8));
	EXPECT(memcmp(out, in, sizeof(in)) == 0);
	EXPECT_EQ(0, weft_write(small, out, SMALL_BLOCKS - 8, 8, WEFT_FUA));
	EXPECT_EQ(0, weft_read(small, in, SMALL_BLOCKS - 8, 8));
	EXPECT(memcmp(out, in, sizeof(in)) == 0);
	EXPECT_EQ(0, weft_flush(small));
}

static void tells_what_a_namespace_is(void)
{
	struct weft_ns_info info = {.size = sizeof(info)};
	uint32_t nsids[8] = {0};
	struct weft_ns *ns;

	EXPECT_EQ(0, weft_ns_info(small, &info));
	EXPECT_EQ(NS_SMALL, info.nsid);
	EXPECT_EQ(512, info.block_bytes);
	EXPECT_EQ(SMALL_BLOCKS, info.block_count);
	EXPECT(info.transfer_max_bytes >= 4096 && !info.is_read_only && info.copy_ranges_max > 0);
	ns = world_ns(subsystem, NS_READ_ONLY);
	EXPECT_EQ(0, weft_ns_info(ns, &info));
	EXPECT(info.is_read_only);
	weft_ns_close(ns);
	info.size = 0;
	EXPECT_EQ(-EINVAL, weft_ns_info(small, &info));
	EXPECT_EQ(7, weft_ns_list(subsystem, nsids, 2));
	EXPECT(nsids[0] == 1 && nsids[1] == 2 && nsids[2] == 0);
}

static void refuses_what_makes_no_sense(void)
{
	struct weft_range range = {.block = SMALL_BLOCKS - 1, .block_count = 2};
	static uint8_t bytes[8192];
	struct weft_request request = {.op = WEFT_READ, .block = 0, .block_count = 2};

	EXPECT_EQ(-EINVAL, weft_read(small, bytes, SMALL_BLOCKS, 1));
	EXPECT_EQ(-EINVAL, weft_read(small, bytes, SMALL_BLOCKS - 1, 2));
	EXPECT_EQ(-EINVAL, weft_read(small, bytes, UINT64_MAX, 2));
	EXPECT_EQ(-EINVAL, weft_read(small, bytes, 0, 0));
	EXPECT_EQ(-EINVAL, weft_write(small, bytes, 0, 1, WEFT_IGNORE_KEY));
	EXPECT_EQ(-EINVAL, weft_write(small, bytes, 0, 1, 1u << 20));
	EXPECT_EQ(-EINVAL, run_one(small, &request, bytes, 1023));
	EXPECT_EQ(-EINVAL, run_one(small, &request, bytes, 512));
	EXPECT_EQ(-EINVAL, run_one(small, &request, bytes, 2048));
	EXPECT_EQ(0, run_one(small, &request, bytes, 1024));
	request = (struct weft_request){.op = WEFT_DEALLOCATE, .ranges = &range, .range_count = 1};
	EXPECT_EQ(-EINVAL, weft_run(small, &request));
	request.op = WEFT_COPY;
	EXPECT_EQ(-EINVAL, weft_run(small, &request));
	range = (struct weft_range){.block = 0, .block_count = 2};
	request.block = SMALL_BLOCKS - 1;
	EXPECT_EQ(-EINVAL, weft_run(small, &request));
	request = (struct weft_request){.op = (enum weft_op)99};
	EXPECT_EQ(-EINVAL, weft_run(small, &request));
	/* No callback. */
	request = (struct weft_request){.op = WEFT_FLUSH};
	EXPECT_EQ(-EINVAL, weft_submit(small, &request));
}

/* Much longer than one command, from one piece and from pieces of odd lengths. */
static void splits_and_joins(void)
{
	const size_t count = 24 << 20;
	uint8_t *out = malloc(count), *in = malloc(count);
	struct iovec iov[2048];
	struct weft_request request = {.op = WEFT_READ, .block = 17, .iov = iov};
	size_t done = 0;
	unsigned pieces = 0;

	world_fill(out, count, 2);
	EXPECT_EQ(0, weft_write(big, out, 17, (uint32_t)(count / 4096), 0));
	EXPECT_EQ(0, weft_read(big, in, 17, (uint32_t)(count / 4096)));
	EXPECT(memcmp(out, in, count) == 0);
	memset(in, 0, count);
	while (done < count) {
		size_t len = 97 + (pieces * 7919u) % 30000;

		if (len > count - done)
			len = count - done;
		iov[pieces++] = (struct iovec){in + done, len};
		/* Empty pieces are allowed. */
		if (pieces % 50 == 0)
			iov[pieces++] = (struct iovec){in, 0};
		done += len;
	}
	request.iov_count = pieces;
	request.block_count = (uint32_t)(count / 4096);
	EXPECT_EQ(0, weft_run(big, &request));
	EXPECT(memcmp(out, in, count) == 0);
	request.op = WEFT_COMPARE;
	EXPECT_EQ(0, weft_run(big, &request));
	in[count - 1] ^= 1;
	EXPECT_EQ(-EILSEQ, weft_run(big, &request));
	EXPECT_EQ(0x285, request.status);
	free(out);
	free(in);
}

/* Sixty-three pieces in a row hold less than a block: the request cannot be split. */
static void refuses_crumbs_when_it_must_split(void)
{
	const unsigned count = 8 << 20;
	uint8_t *bytes = calloc(1, count);
	struct iovec iov[200];
	struct weft_request request = {
		.op = WEFT_READ, .iov = iov, .iov_count = 200, .block_count = count / 4096};

	for (unsigned i = 0; i < 199; i++)
		iov[i] = (struct iovec){bytes + i, 1};
	iov[199] = (struct iovec){bytes + 199, count - 199};
	EXPECT_EQ(-EINVAL, weft_run(big, &request));
	free(bytes);
}

static void zeroes_and_deallocates(void)
{
	const uint32_t blocks = BIG_BLOCKS;
	struct weft_range ranges[256];
	struct weft_request request = {
		.op = WEFT_WRITE_ZEROES, .block_count = blocks, .flags = WEFT_DEALLOCATE_OK};
	uint8_t bytes[4096], zeroes[4096] = {0};

	world_fill(bytes, sizeof(bytes), 3);
	EXPECT_EQ(0, weft_write(big, bytes, blocks - 1, 1, 0));
	EXPECT_EQ(0, weft_run(big, &request));
	EXPECT_EQ(0, weft_read(big, bytes, blocks - 1, 1));
	EXPECT(memcmp(bytes, zeroes, sizeof(bytes)) == 0);
	/* One range in block and block_count, and the maximum number of ranges. */
	request = (struct weft_request){.op = WEFT_DEALLOCATE, .block = 5, .block_count = 3};
	EXPECT_EQ(0, weft_run(big, &request));
	for (unsigned i = 0; i < 256; i++)
		ranges[i] = (struct weft_range){.block = 2 * i, .block_count = 1};
	world_fill(bytes, sizeof(bytes), 4);
	EXPECT_EQ(0, weft_write(big, bytes, 510, 1, 0));
	request = (struct weft_request){.op = WEFT_DEALLOCATE, .ranges = ranges, .range_count = 3};
	EXPECT_EQ(0, weft_run(big, &request));
	request.range_count = 256;
	EXPECT_EQ(0, weft_run(big, &request));
	EXPECT_EQ(0, weft_read(big, bytes, 510, 1));
	EXPECT(memcmp(bytes, zeroes, sizeof(bytes)) == 0);
	request.range_count = 257;
	EXPECT_EQ(-EINVAL, weft_run(big, &request));
	request = (struct weft_request){.op = WEFT_VERIFY, .block_count = blocks};
	EXPECT_EQ(0, weft_run(big, &request));
}

static void compares(void)
{
	uint8_t bytes[1024];
	struct weft_request request = {.op = WEFT_COMPARE, .block = 7, .block_count = 2};

	world_fill(bytes, sizeof(bytes), 5);
	EXPECT_EQ(0, weft_write(small, bytes, 7, 2, 0));
	EXPECT_EQ(0, run_one(small, &request, bytes, sizeof(bytes)));
	bytes[700]++;
	EXPECT_EQ(-EILSEQ, run_one(small, &request, bytes, sizeof(bytes)));
	EXPECT_EQ(0x285, request.status);
	EXPECT_EQ(1, request.attempts);
}

static void compares_and_writes(void)
{
	uint8_t before[512], after[512], in[512];
	struct iovec compare = {before, sizeof(before)}, write = {after, sizeof(after)};
	struct weft_request request = {.op = WEFT_COMPARE_WRITE,
				       .block = 9,
				       .block_count = 1,
				       .iov = &compare,
				       .iov_count = 1,
				       .write_iov = &write,
				       .write_iov_count = 1};

	world_fill(before, sizeof(before), 6);
	world_fill(after, sizeof(after), 7);
	EXPECT_EQ(0, weft_write(small, before, 9, 1, 0));
	EXPECT_EQ(0, weft_run(small, &request));
	EXPECT_EQ(0, weft_read(small, in, 9, 1));
	EXPECT(memcmp(in, after, sizeof(in)) == 0);
	/* The block has changed: the second time nothing is written. */
	EXPECT_EQ(-EILSEQ, weft_run(small, &request));
	EXPECT_EQ(0x285, request.status);
	write.iov_len = 511;
	EXPECT_EQ(-EINVAL, weft_run(small, &request));
}

static void copies(void)
{
	struct weft_range ranges[64];
	struct weft_request request = {.op = WEFT_COPY, .block = 8000, .ranges = ranges};
	uint8_t out[64 * 512], in[64 * 512];

	world_fill(out, sizeof(out), 8);
	for (unsigned i = 0; i < 64; i++) {
		ranges[i] = (struct weft_range){.block = 1000 + 3 * i, .block_count = 1};
		EXPECT_EQ(0, weft_write(small, out + i * 512, ranges[i].block, 1, 0));
	}
	/* Two ranges need a buffer of the library. */
	request.range_count = 2;
	EXPECT_EQ(0, weft_run(small, &request));
	EXPECT_EQ(0, weft_read(small, in, 8000, 2));
	EXPECT(memcmp(in, out, 1024) == 0);
	request.range_count = 64;
	request.block = 9000;
	EXPECT_EQ(0, weft_run(small, &request));
	EXPECT_EQ(0, weft_read(small, in, 9000, 64));
	EXPECT(memcmp(in, out, sizeof(in)) == 0);
}

static void tells_media_errors(void)
{
	struct weft_ns *bad = world_ns(subsystem, NS_BAD_READ);
	struct weft_ns *full = world_ns(subsystem, NS_FULL);
	struct weft_ns *read_only = world_ns(subsystem, NS_READ_ONLY);
	struct weft_request request = {.op = WEFT_READ, .block_count = 1};
	uint8_t bytes[512] = {0};

	EXPECT_EQ(-ENODATA, run_one(bad, &request, bytes, sizeof(bytes)));
	EXPECT_EQ(0x281, request.status);
	EXPECT_EQ(-ENOSPC, weft_write(full, bytes, 0, 1, 0));
	EXPECT_EQ(-EROFS, weft_write(read_only, bytes, 0, 1, 0));
	EXPECT_EQ(0, weft_read(read_only, bytes, 0, 1));
	weft_ns_close(bad);
	weft_ns_close(full);
	weft_ns_close(read_only);
}

/* Another host acquires the namespace; our writes fail until it releases. */
static void obeys_reservations(void)
{
	struct weft_options options;
	struct weft *other;
	struct weft_subsystem *other_subsystem;
	struct weft_ns *other_ns;
	uint8_t bytes[512] = {0}, report[256] = {0};
	struct weft_request request = {.op = WEFT_RESERVATION_REGISTER, .new_key = 0x1234};

	weft_options_init(&options);
	options.host_nqn = "nqn.2026-11.io.weft:other-host";
	options.host_id = "6f1b4ddc-22cf-4d5c-a3a5-0b4b6f8f2f11";
	other = world_create(&options);
	other_subsystem = world_open(other);
	other_ns = world_ns(other_subsystem, NS_SMALL);
	EXPECT_EQ(0, weft_run(other_ns, &request));
	request = (struct weft_request){
		.op = WEFT_RESERVATION_ACQUIRE, .key = 0x1234, .reservation_type = 1};
	EXPECT_EQ(0, weft_run(other_ns, &request));
	EXPECT_EQ(-EBADE, weft_write(small, bytes, 0, 1, 0));
	EXPECT_EQ(0, weft_read(small, bytes, 0, 1));
	EXPECT_EQ(0, weft_write(other_ns, bytes, 0, 1, 0));
	request = (struct weft_request){.op = WEFT_RESERVATION_REPORT};
	EXPECT_EQ(0, run_one(small, &request, report, sizeof(report)));
	/* RTYPE, and one registrant. */
	EXPECT_EQ(1, report[4]);
	EXPECT_EQ(1, report[5]);
	request = (struct weft_request){
		.op = WEFT_RESERVATION_RELEASE, .key = 0x1234, .reservation_type = 1};
	EXPECT_EQ(-EBADE, weft_run(small, &request));
	EXPECT_EQ(0, weft_run(other_ns, &request));
	EXPECT_EQ(0, weft_write(small, bytes, 0, 1, 0));
	request = (struct weft_request){
		.op = WEFT_RESERVATION_REGISTER, .action = 1, .flags = WEFT_IGNORE_KEY};
	EXPECT_EQ(0, weft_run(other_ns, &request));
	weft_ns_close(other_ns);
	weft_close(other_subsystem);
	weft_destroy(other);
}

int main(void)
{
	struct weft_options options;

	weft_options_init(&options);
	options.reactors = 2;
	weft = world_create(&options);
	subsystem = world_open(weft);
	small = world_ns(subsystem, NS_SMALL);
	big = world_ns(subsystem, NS_BIG);
	TAP_RUN(reads_what_was_written);
	TAP_RUN(tells_what_a_namespace_is);
	TAP_RUN(refuses_what_makes_no_sense);
	TAP_RUN(splits_and_joins);
	TAP_RUN(refuses_crumbs_when_it_must_split);
	TAP_RUN(zeroes_and_deallocates);
	TAP_RUN(compares);
	TAP_RUN(compares_and_writes);
	TAP_RUN(copies);
	TAP_RUN(tells_media_errors);
	TAP_RUN(obeys_reservations);
	weft_ns_close(small);
	weft_ns_close(big);
	weft_close(subsystem);
	weft_destroy(weft);
	return tap_end();
}
