/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the programs that test libweft against a live target. The harness (lib_harness.py)
 * starts the target and names it in the environment. Only the public header is used.
 *
 * Namespaces of the target: see NAMESPACES in lib_harness.py.
 */
#ifndef WEFT_TESTS_LIB_WORLD_H
#define WEFT_TESTS_LIB_WORLD_H

#include "../unit/tap.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <weft/weft.h>

enum world_nsid {
	NS_SMALL = 1,     /* 8 MiB of 512 byte blocks */
	NS_BIG = 2,       /* 64 MiB of 4 KiB blocks */
	NS_READ_ONLY = 3, /* 1 MiB of 512 byte blocks */
	NS_BAD_READ = 4,  /* reads fail */
	NS_FULL = 5,      /* writes find no space */
	NS_LEAVING = 6,   /* the harness removes it when asked */
	NS_FORMATTED = 7, /* likewise, with 4 KiB blocks in place of 512 bytes */
};

#define SMALL_BLOCKS 16384
#define BIG_BLOCKS   16384

__attribute__((unused)) static const char *world_env(const char *name)
{
	const char *value = getenv(name);

	if (value == NULL) {
		printf("Bail out! %s is not set; run it through its harness\n", name);
		exit(1);
	}
	return value;
}

__attribute__((unused)) static struct weft *world_create(const struct weft_options *options)
{
	struct weft_error error;
	struct weft *weft = NULL;

	if (weft_create(options, &weft, &error) != 0) {
		printf("Bail out! weft_create: %s\n", error.text);
		exit(1);
	}
	return weft;
}

/* Address and NQN of the target; the caller may change the options. */
__attribute__((unused)) static void world_open_options(struct weft_open_options *options,
						       struct weft_path *path)
{
	*path = (struct weft_path){.address = "127.0.0.1", .service = world_env("WEFT_PORT")};
	weft_open_options_init(options);
	options->subsystem_nqn = world_env("WEFT_NQN");
	options->paths = path;
	options->path_count = 1;
}

__attribute__((unused)) static struct weft_subsystem *world_open(struct weft *weft)
{
	struct weft_subsystem *subsystem = NULL;
	struct weft_open_options options;
	struct weft_error error;
	struct weft_path path;

	world_open_options(&options, &path);
	if (weft_open(weft, &options, &subsystem, &error) != 0) {
		printf("Bail out! weft_open: %s\n", error.text);
		exit(1);
	}
	return subsystem;
}

__attribute__((unused)) static struct weft_ns *world_ns(struct weft_subsystem *subsystem,
							uint32_t nsid)
{
	struct weft_error error;
	struct weft_ns *ns = NULL;

	if (weft_ns_open(subsystem, nsid, &ns, &error) != 0) {
		printf("Bail out! weft_ns_open: %s\n", error.text);
		exit(1);
	}
	return ns;
}

/* Bytes that differ from block to block and from one seed to the next. */
__attribute__((unused)) static void world_fill(uint8_t *bytes, size_t count, uint32_t seed)
{
	uint32_t state = seed * 2654435761u + 1;

	for (size_t i = 0; i < count; i++) {
		state = state * 1664525u + 1013904223u;
		bytes[i] = (uint8_t)(state >> 24);
	}
}

/* Asks the harness for a change of the target and waits until it is done. */
__attribute__((unused)) static void world_ask(const char *what)
{
	char line[64];

	printf("# ask: %s\n", what);
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin) == NULL) {
		printf("Bail out! the harness does not answer\n");
		exit(1);
	}
}

#endif
