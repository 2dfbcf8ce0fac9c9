/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host side of one_io with paths: through the multipath engine, or through libweft's requests
 * on top of it, submitted on their own reactor as from a callback. One thread, on the simulated
 * reactor.
 */
#ifndef WEFT_BENCH_ONE_IO_PATHS_H
#define WEFT_BENCH_ONE_IO_PATHS_H

#include "host/mpath.h"

#define PATHS_COMMANDS_MAX 128

struct paths_config {
	struct reactor *reactor;
	const char *nqn;
	const struct host_addr *addrs; /* count paths */
	unsigned count;
	enum path_policy policy;
	unsigned queue_size;
	bool has_digests;
	bool has_lib; /* requests of libweft */
	uint32_t block_bytes;
	uint64_t block_count;
	void (*done)(unsigned index);
};

void paths_open(const struct paths_config *config);
/* Every path is live. */
bool paths_are_live(void);
/* Command `index`, below PATHS_COMMANDS_MAX. */
void paths_submit(unsigned index, bool is_write, uint64_t block, uint32_t blocks, void *data);
void paths_close(void);
bool paths_are_gone(void);

#endif
