/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads back over two paths, prints events of the paths, and checks that every block
 * holds the data written last. Pull a cable, or kill a target, while it runs.
 *
 *     failover SECONDS NQN NSID ADDRESS PORT ADDRESS PORT
 *
 * Build: cc failover.c $(pkg-config --cflags --libs weft)
 */
#include <weft/weft.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCKS 64

/* Runs on a thread of libweft: must return quickly. */
static void path_event(void *arg, const char *line)
{
	(void)arg;
	printf("event: %s\n", line);
	fflush(stdout);
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Fills a block with its round and its number. */
static void block_fill(uint8_t *bytes, uint32_t count, uint64_t block, uint64_t round)
{
	memset(bytes, (int)(block + round) & 0xff, count);
	memcpy(bytes, &block, sizeof(block));
	memcpy(bytes + sizeof(block), &round, sizeof(round));
}

/* One round: every block is written, then read back. */
static int round_run(struct weft_ns *ns, uint8_t *bytes, uint32_t block_bytes, uint64_t round)
{
	uint8_t *want = bytes, *got = bytes + block_bytes;
	int res = 0;

	for (uint64_t block = 0; res == 0 && block < BLOCKS; block++) {
		block_fill(want, block_bytes, block, round);
		res = weft_write(ns, want, block, 1, 0);
	}
	for (uint64_t block = 0; res == 0 && block < BLOCKS; block++) {
		block_fill(want, block_bytes, block, round);
		res = weft_read(ns, got, block, 1);
		if (res == 0 && memcmp(want, got, block_bytes) != 0) {
			fprintf(stderr,
				"failover: block %" PRIu64 " is not what round %" PRIu64 " wrote\n",
				block, round);
			res = -EILSEQ;
		}
	}
	return res;
}

static int rounds_run(struct weft_ns *ns, double seconds)
{
	struct weft_ns_info info = {.size = sizeof(info)};
	double start = seconds_now(), slowest = 0;
	uint64_t round = 0;
	uint8_t *bytes;
	int res = 0;

	weft_ns_info(ns, &info);
	bytes = malloc(2 * (size_t)info.block_bytes);
	if (bytes == NULL)
		return -ENOMEM;
	while (res == 0 && seconds_now() - start < seconds) {
		double begun = seconds_now();

		res = round_run(ns, bytes, info.block_bytes, ++round);
		if (seconds_now() - begun > slowest)
			slowest = seconds_now() - begun;
		if (round == 1) {
			printf("the first round is done\n");
			fflush(stdout);
		}
	}
	free(bytes);
	if (res != 0)
		fprintf(stderr, "failover: round %" PRIu64 ": %s\n", round, weft_strerror(res));
	else
		printf("%" PRIu64
		       " rounds, every block as it was written; the slowest took %.3f s\n",
		       round, slowest);
	return res;
}

static void paths_print(struct weft_subsystem *subsystem, uint32_t nsid)
{
	struct weft_path_info infos[8];
	int count;

	infos[0].size = sizeof(infos[0]);
	count = weft_paths(subsystem, nsid, infos, 8);
	for (int i = 0; i < count && i < 8; i++)
		printf("path: %s %s %s, %" PRIu64 " commands, lost %" PRIu64 " times\n",
		       infos[i].address, infos[i].state, infos[i].ana_state, infos[i].commands,
		       infos[i].losses);
}

int main(int argc, char **argv)
{
	struct weft_open_options options;
	struct weft_subsystem *subsystem;
	struct weft_path paths[2];
	struct weft_error error;
	struct weft_ns *ns;
	struct weft *weft;
	uint32_t nsid;
	int res;

	if (argc != 8) {
		fprintf(stderr, "usage: failover SECONDS NQN NSID ADDRESS PORT ADDRESS PORT\n");
		return 2;
	}
	res = weft_create(NULL, &weft, &error);
	if (res != 0) {
		fprintf(stderr, "failover: %s\n", error.text);
		return 1;
	}
	nsid = (uint32_t)strtoul(argv[3], NULL, 0);
	paths[0] = (struct weft_path){.address = argv[4], .service = argv[5]};
	paths[1] = (struct weft_path){.address = argv[6], .service = argv[7]};
	weft_open_options_init(&options);
	options.subsystem_nqn = argv[2];
	options.paths = paths;
	options.path_count = 2;
	options.profile = "training";
	options.policy = "round-robin";
	options.event = path_event;
	res = weft_open(weft, &options, &subsystem, &error);
	if (res == 0) {
		res = weft_ns_open(subsystem, nsid, &ns, &error);
		if (res == 0) {
			res = rounds_run(ns, strtod(argv[1], NULL));
			paths_print(subsystem, nsid);
			weft_ns_close(ns);
		} else {
			fprintf(stderr, "failover: %s\n", error.text);
		}
		weft_close(subsystem);
	} else {
		fprintf(stderr, "failover: %s\n", error.text);
	}
	weft_destroy(weft);
	return res == 0 ? 0 : 1;
}
