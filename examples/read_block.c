/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one block of a namespace and prints it, with the synchronous calls of libweft.
 *
 *     read_block ADDRESS PORT NQN NSID BLOCK
 *
 * Build: cc read_block.c $(pkg-config --cflags --libs weft)
 */
#include <weft/weft.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void block_print(const uint8_t *bytes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i += 16) {
		printf("%08" PRIx32 " ", i);
		for (uint32_t k = i; k < i + 16; k++)
			printf(" %02x", bytes[k]);
		printf("\n");
	}
}

static int block_read(struct weft_subsystem *subsystem, uint32_t nsid, uint64_t block)
{
	struct weft_ns_info info = {.size = sizeof(info)};
	struct weft_error error;
	struct weft_ns *ns;
	uint8_t *bytes;
	int res;

	res = weft_ns_open(subsystem, nsid, &ns, &error);
	if (res != 0) {
		fprintf(stderr, "read_block: %s\n", error.text);
		return res;
	}
	weft_ns_info(ns, &info);
	printf("namespace %" PRIu32 ": %" PRIu64 " blocks of %" PRIu32 " bytes\n", info.nsid,
	       info.block_count, info.block_bytes);
	bytes = malloc(info.block_bytes);
	res = bytes != NULL ? weft_read(ns, bytes, block, 1) : -ENOMEM;
	if (res == 0)
		block_print(bytes, info.block_bytes);
	else
		fprintf(stderr, "read_block: block %" PRIu64 ": %s\n", block, weft_strerror(res));
	free(bytes);
	weft_ns_close(ns);
	return res;
}

int main(int argc, char **argv)
{
	struct weft_open_options options;
	struct weft_subsystem *subsystem;
	struct weft_error error;
	struct weft_path path;
	struct weft *weft;
	int res;

	if (argc != 6) {
		fprintf(stderr, "usage: read_block ADDRESS PORT NQN NSID BLOCK\n");
		return 2;
	}
	res = weft_create(NULL, &weft, &error);
	if (res != 0) {
		fprintf(stderr, "read_block: %s\n", error.text);
		return 1;
	}
	path = (struct weft_path){.address = argv[1], .service = argv[2]};
	weft_open_options_init(&options);
	options.subsystem_nqn = argv[3];
	options.paths = &path;
	options.path_count = 1;
	res = weft_open(weft, &options, &subsystem, &error);
	if (res != 0) {
		fprintf(stderr, "read_block: %s\n", error.text);
	} else {
		res = block_read(subsystem, (uint32_t)strtoul(argv[4], NULL, 0),
				 strtoull(argv[5], NULL, 0));
		weft_close(subsystem);
	}
	weft_destroy(weft);
	return res == 0 ? 0 : 1;
}
