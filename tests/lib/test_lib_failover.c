/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many writes in flight over two paths when one path is cut: all succeed, some at the second
 * attempt, and every block holds the data last written to it. A fused pair in flight ends with the
 * result that is known, and no other.
 */
#include "lib_world.h"

#include <stdatomic.h>

#define WRITERS      32
#define PIECE_BLOCKS 16
#define PIECE_BYTES  (PIECE_BLOCKS * 4096)
#define BEFORE_CUT   400
#define AFTER_CUT    400
#define PATIENCE_MS  60000

struct writer {
	struct weft_request request;
	struct iovec iov;
	uint32_t index;
	uint32_t round;
	uint8_t bytes[PIECE_BYTES];
};

static struct weft *weft;
static struct weft_subsystem *subsystem;
static struct weft_ns *big, *small;
static struct writer writers[WRITERS];
/* The callbacks run on two reactors. */
static _Atomic unsigned ended, running, failures, repeated;
static _Atomic bool is_stopping;

static void writer_go_on(struct writer *writer)
{
	writer->round++;
	world_fill(writer->bytes, PIECE_BYTES, writer->index * 100000 + writer->round);
	writer->request.reactor++;
	if (weft_submit(big, &writer->request) != 0) {
		failures++;
		running--;
	}
}

static void writer_done(struct weft_request *request)
{
	struct writer *writer = request->arg;

	ended++;
	failures += request->result != 0;
	repeated += request->attempts > 1;
	if (is_stopping)
		running--;
	else
		writer_go_on(writer);
}

static bool has_stopped(void)
{
	return running == 0;
}

static unsigned ended_wanted;

static bool has_ended_enough(void)
{
	return ended >= ended_wanted;
}

static _Atomic bool is_fused_done;

static bool has_fused_ended(void)
{
	return is_fused_done;
}

static void wait_until(bool (*is_true)(void))
{
	for (int i = 0; !is_true(); i++) {
		if (i == PATIENCE_MS) {
			printf("Bail out! requests do not end\n");
			exit(1);
		}
		usleep(1000); /* poll with a deadline */
	}
}

static void fused_done(struct weft_request *request)
{
	is_fused_done = true;
}

/* A pair in flight at the cut: done, not done, or unknown. The block must agree with the result. */
static void fused_judge(const struct weft_request *request, const uint8_t *before,
			const uint8_t *after)
{
	uint8_t now[512];

	EXPECT_EQ(0, weft_read(small, now, 3, 1));
	if (request->result == 0)
		EXPECT(memcmp(now, after, 512) == 0);
	else if (request->result == -EREMOTEIO)
		EXPECT(memcmp(now, after, 512) == 0 || memcmp(now, before, 512) == 0);
	else
		EXPECT_EQ(0, request->result);
}

static void loses_no_write_when_a_path_is_cut(void)
{
	uint8_t before[512], after[512];
	struct iovec compare = {before, 512}, write = {after, 512};
	struct weft_request fused = {.op = WEFT_COMPARE_WRITE,
				     .block = 3,
				     .block_count = 1,
				     .iov = &compare,
				     .iov_count = 1,
				     .write_iov = &write,
				     .write_iov_count = 1,
				     .done = fused_done};

	world_fill(before, 512, 1);
	world_fill(after, 512, 2);
	EXPECT_EQ(0, weft_write(small, before, 3, 1, 0));
	for (uint32_t i = 0; i < WRITERS; i++) {
		struct writer *writer = &writers[i];

		writer->index = i;
		writer->iov = (struct iovec){writer->bytes, PIECE_BYTES};
		writer->request = (struct weft_request){.op = WEFT_WRITE,
							.block = i * PIECE_BLOCKS,
							.block_count = PIECE_BLOCKS,
							.iov = &writer->iov,
							.iov_count = 1,
							.reactor = i,
							.done = writer_done,
							.arg = writer};
		running++;
		writer_go_on(writer);
	}
	ended_wanted = BEFORE_CUT;
	wait_until(has_ended_enough);
	EXPECT_EQ(0, weft_submit(small, &fused));
	world_ask("cut relay");
	ended_wanted = ended + AFTER_CUT;
	wait_until(has_ended_enough);
	is_stopping = true;
	wait_until(has_stopped);
	wait_until(has_fused_ended);
	EXPECT_EQ(0, failures);
	EXPECT(repeated > 0);
	fused_judge(&fused, before, after);
	for (uint32_t i = 0; i < WRITERS; i++) {
		static uint8_t got[PIECE_BYTES];

		EXPECT_EQ(0, weft_read(big, got, i * PIECE_BLOCKS, PIECE_BLOCKS));
		EXPECT(memcmp(got, writers[i].bytes, PIECE_BYTES) == 0);
	}
}

static void knows_which_path_was_lost(void)
{
	struct weft_path_info infos[4] = {{.size = sizeof(infos[0])}};
	unsigned losses = 0;

	EXPECT_EQ(4, weft_paths(subsystem, NS_BIG, infos, 4));
	for (unsigned i = 0; i < 4; i++) {
		bool is_cut = strstr(infos[i].address, world_env("WEFT_RELAY_PORT")) != NULL;

		EXPECT_EQ(is_cut, infos[i].losses > 0);
		EXPECT_EQ(is_cut, infos[i].last_error[0] != '\0');
		EXPECT_EQ(!is_cut, strcmp(infos[i].state, "live") == 0);
		losses += infos[i].losses > 0;
	}
	EXPECT_EQ(2, losses);
}

int main(void)
{
	struct weft_open_options open_options;
	struct weft_path paths[2];
	struct weft_options options;
	struct weft_error error;

	weft_options_init(&options);
	options.reactors = 2;
	weft = world_create(&options);
	world_open_options(&open_options, &paths[0]);
	paths[1] =
		(struct weft_path){.address = "127.0.0.1", .service = world_env("WEFT_RELAY_PORT")};
	open_options.path_count = 2;
	open_options.paths = paths;
	open_options.profile = "training";
	/* Only the cut path may be lost, however busy the machine is. */
	open_options.timeouts = "connect=20s,keep-alive=20s,silence=10s,unacked=10s";
	open_options.policy = "round-robin";
	if (weft_open(weft, &open_options, &subsystem, &error) != 0) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	/* weft_open returns with the first path; the test needs both, on both reactors. */
	for (int i = 0; i < 2000; i++) {
		struct weft_path_info infos[4] = {{.size = sizeof(infos[0])}};
		int live = 0;

		weft_paths(subsystem, 0, infos, 4);
		for (unsigned k = 0; k < 4; k++)
			live += strcmp(infos[k].state, "live") == 0;
		if (live == 4)
			break;
		usleep(10000); /* poll with a deadline */
	}
	big = world_ns(subsystem, NS_BIG);
	small = world_ns(subsystem, NS_SMALL);
	TAP_RUN(loses_no_write_when_a_path_is_cut);
	TAP_RUN(knows_which_path_was_lost);
	weft_ns_close(big);
	weft_ns_close(small);
	weft_close(subsystem);
	weft_destroy(weft);
	return tap_end();
}
