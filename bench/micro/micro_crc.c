/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Micro: CRC32C over what digests cover: a header, a block and a large transfer, all in the cache.
 * One thread.
 */
#include "micro.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/list.h"

#include <string.h>

struct crc_case {
	const char *name;
	size_t len_bytes;
};

static uint8_t data[128 * 1024];

static uint64_t crc_run(void *arg, uint64_t count)
{
	const struct crc_case *crc_case = arg;
	uint64_t start_ns = clock_thread_cpu_ns();

	for (uint64_t i = 0; i < count; i++) {
		uint32_t crc;

		micro_keep(data);
		crc = crc32c(data, crc_case->len_bytes);
		micro_keep(&crc);
	}
	return clock_thread_cpu_ns() - start_ns;
}

void micro_crc(struct micro *micro)
{
	static struct crc_case cases[] = {
		{"24 bytes", 24}, {"4 KiB", 4096}, {"128 KiB", 128 * 1024}};

	memset(data, 0x5a, sizeof(data));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct micro_what what = {.group = "crc32c",
					  .name = cases[i].name,
					  .unit = MICRO_GB_PER_S,
					  .bytes = cases[i].len_bytes};

		micro_measure(micro, &what, crc_run, &cases[i]);
	}
}
