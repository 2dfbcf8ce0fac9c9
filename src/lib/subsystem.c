/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes a subsystem. The caller's thread does the steps that may block (names,
 * discovery) and then waits for the part of every reactor. The subsystem's limits are the narrowest
 * that any part has received.
 */
#include "lib/lib.h"

#include <errno.h>
#include <stdlib.h>

static void subsystem_free(struct weft_subsystem *subsystem)
{
	for (unsigned i = 0; i < subsystem->part_count; i++)
		part_free(&subsystem->parts[i]);
	lib_ns_free_all(subsystem);
	pthread_mutex_destroy(&subsystem->ask_lock);
	pthread_mutex_destroy(&subsystem->ns_lock);
	free(subsystem->addrs);
	join_put(subsystem->join);
	free(subsystem);
}

static struct weft_subsystem *subsystem_alloc(struct weft *weft)
{
	unsigned count = weft->reactor_count;
	struct weft_subsystem *subsystem =
		calloc(1, sizeof(*subsystem) + count * sizeof(subsystem->parts[0]));

	if (subsystem == NULL)
		return NULL;
	subsystem->weft = weft;
	subsystem->part_count = count;
	pthread_mutex_init(&subsystem->ask_lock, NULL);
	pthread_mutex_init(&subsystem->ns_lock, NULL);
	subsystem->join = join_create();
	for (unsigned i = 0; i < count; i++) {
		if (subsystem->join == NULL || part_init(&subsystem->parts[i], subsystem, i) != 0) {
			subsystem_free(subsystem);
			return NULL;
		}
	}
	return subsystem;
}

/* The smaller limit; 0 means no limit. */
static uint32_t limit_min(uint32_t a, uint32_t b)
{
	if (a == 0 || b == 0)
		return a + b;
	return a < b ? a : b;
}

static void limits_join(struct weft_subsystem *subsystem)
{
	struct lib_limits *all = &subsystem->limits;

	*all = subsystem->parts[0].limits;
	for (unsigned i = 1; i < subsystem->part_count; i++) {
		const struct lib_limits *own = &subsystem->parts[i].limits;

		all->transfer_max_bytes =
			limit_min(all->transfer_max_bytes, own->transfer_max_bytes);
		all->write_zeroes_max_bytes =
			limit_min(all->write_zeroes_max_bytes, own->write_zeroes_max_bytes);
		all->verify_max_bytes = limit_min(all->verify_max_bytes, own->verify_max_bytes);
		all->deallocate_blocks_max =
			limit_min(all->deallocate_blocks_max, own->deallocate_blocks_max);
		all->compare_write_blocks =
			limit_min(all->compare_write_blocks, own->compare_write_blocks);
		all->has_copy = all->has_copy && own->has_copy;
		all->has_lba_status = all->has_lba_status && own->has_lba_status;
	}
}

/* The first failure of a part, with its reason; 0: all parts succeeded. */
static int answers_judge(const struct weft_subsystem *subsystem, struct weft_error *error)
{
	for (unsigned i = 0; i < subsystem->part_count; i++) {
		const struct part *part = &subsystem->parts[i];

		if (part->answer == 0)
			continue;
		lib_fail(error, 0, "%s", part->error.text);
		if (error != NULL)
			error->status = part->error.status.value & 0x7ff;
		return part->answer;
	}
	return 0;
}

void weft_open_options_init(struct weft_open_options *options)
{
	*options = (struct weft_open_options){.size = sizeof(*options)};
}

int weft_open(struct weft *weft, const struct weft_open_options *user_options,
	      struct weft_subsystem **ret_subsystem, struct weft_error *error)
{
	struct weft_open_options options;
	struct weft_subsystem *subsystem;
	int res;

	if (error != NULL)
		*error = (struct weft_error){0};
	if (reactor_current() != NULL)
		return lib_fail(error, -EDEADLK, "weft_open waits: not allowed in a callback");
	if (user_options == NULL)
		return lib_fail(error, -EINVAL, "the options are missing");
	res = lib_struct_take(&options, sizeof(options), user_options, user_options->size);
	if (res != 0)
		return lib_fail(error, res,
				"struct weft_open_options is not for this libweft (%s); call "
				"weft_open_options_init first",
				WEFT_VERSION);
	subsystem = subsystem_alloc(weft);
	if (subsystem == NULL)
		return lib_fail(error, -ENOMEM, "out of memory");
	res = open_args_take(subsystem, &options, error);
	if (res != 0) {
		subsystem_free(subsystem);
		return res;
	}
	placement_prepare(subsystem);
	atomic_fetch_add(&weft->subsystem_count, 1);
	subsystem_ask(subsystem, part_open, NULL);
	res = answers_judge(subsystem, error);
	if (res != 0) {
		weft_close(subsystem);
		return res;
	}
	limits_join(subsystem);
	*ret_subsystem = subsystem;
	return 0;
}

void weft_close(struct weft_subsystem *subsystem)
{
	struct weft *weft;

	if (subsystem == NULL)
		return;
	weft = subsystem->weft;
	subsystem_ask(subsystem, part_close, NULL);
	subsystem_free(subsystem);
	atomic_fetch_sub(&weft->subsystem_count, 1);
}
