/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths of an open subsystem: added, removed and shown. The caller's thread asks the part of every
 * reactor and waits; a path that one reactor refuses is taken back from the others, so that all
 * have the same.
 */
#include "base/text.h"
#include "lib/lib.h"
#include "wire/nvme_tcp.h"

#include <errno.h>
#include <string.h>

static void path_add(struct part *part, void *arg)
{
	const struct net_addr *addr = arg;
	int res = mpath_add_path(part->mpath, addr);

	if (res == 0)
		placement_tell(part, addr);
	part_answer(part, res);
}

static void path_remove(struct part *part, void *arg)
{
	part_answer(part, mpath_remove_path(part->mpath, arg));
}

/* Undoes an addition where it worked. */
static void path_take_back(struct part *part, void *arg)
{
	part_answer(part, part->answer == 0 ? mpath_remove_path(part->mpath, arg) : part->answer);
}

static int answers_first(const struct weft_subsystem *subsystem)
{
	for (unsigned i = 0; i < subsystem->part_count; i++) {
		if (subsystem->parts[i].answer != 0)
			return subsystem->parts[i].answer;
	}
	return 0;
}

static int path_fail(struct weft_error *error, int res, const struct net_addr *addr)
{
	char address[NET_ADDR_TEXT_BYTES];

	net_addr_format(addr, address);
	switch (res) {
	case -EEXIST:
		return lib_fail(error, res, "there is a path to %s already", address);
	case -ENOENT:
		return lib_fail(error, res, "there is no path to %s", address);
	case -ENOSPC:
		return lib_fail(error, res, "there are %u paths already", MPATH_PATHS_MAX);
	default:
		return lib_fail(error, res, "path to %s: %s", address, strerror(-res));
	}
}

static int path_begin(const struct weft_path *path, struct net_addr *ret_addr,
		      struct weft_error *error)
{
	if (error != NULL)
		*error = (struct weft_error){0};
	if (reactor_current() != NULL)
		return lib_fail(error, -EDEADLK, "paths change while waiting: not from a callback");
	return open_args_resolve(path, NVME_TCP_DEFAULT_PORT, ret_addr, error);
}

int weft_path_add(struct weft_subsystem *subsystem, const struct weft_path *path,
		  struct weft_error *error)
{
	struct net_addr addr;
	int res = path_begin(path, &addr, error);

	if (res != 0)
		return res;
	subsystem_ask(subsystem, path_add, &addr);
	res = answers_first(subsystem);
	if (res == 0)
		return 0;
	subsystem_ask(subsystem, path_take_back, &addr);
	return path_fail(error, res, &addr);
}

int weft_path_remove(struct weft_subsystem *subsystem, const struct weft_path *path,
		     struct weft_error *error)
{
	struct net_addr addr;
	int res = path_begin(path, &addr, error);

	if (res != 0)
		return res;
	subsystem_ask(subsystem, path_remove, &addr);
	res = answers_first(subsystem);
	return res == 0 ? 0 : path_fail(error, res, &addr);
}

/* ---- for people ----------------------------------------------------------------------------- */

static const char *state_name(const struct path_info *info)
{
	switch (info->state) {
	case PATH_LIVE:
		return "live";
	case PATH_CONNECTING:
		return "connecting";
	case PATH_WAITING:
		return "waiting";
	case PATH_CLOSING:
		break;
	}
	return "closing";
}

/* One weft_paths; the parts fill it in one after the other. */
struct path_list {
	pthread_mutex_t lock;
	uint8_t *infos;
	size_t info_bytes; /* as the caller knows the struct */
	unsigned max;
	unsigned count;
	uint32_t nsid;
};

static void info_fill(const struct part *part, unsigned index, uint32_t nsid,
		      struct weft_path_info *to)
{
	struct path_info info;

	mpath_path_info(part->mpath, index, &info);
	*to = (struct weft_path_info){
		.size = sizeof(*to),
		.reactor = part->index,
		.is_stable = info.is_stable,
		.has_reset = info.has_reset,
		.cntlid = info.cntlid,
		.quiesce_ms = info.quiesce_ms,
		.numa_node = info.numa_node,
		.in_flight = info.in_flight,
		.latency_ns = info.latency_ns,
		.rtt_ns = info.rtt_ns,
		.commands = info.commands,
		.losses = info.losses,
	};
	net_addr_format(&info.addr, to->address);
	text_copy(to->state, sizeof(to->state), state_name(&info));
	text_copy(to->last_error, sizeof(to->last_error), info.last_error);
	if (nsid != 0)
		text_copy(to->ana_state, sizeof(to->ana_state),
			  ana_state_name(mpath_path_ana(part->mpath, index, nsid)));
}

static void paths_list(struct part *part, void *arg)
{
	unsigned count = mpath_path_count(part->mpath);
	struct path_list *list = arg;

	pthread_mutex_lock(&list->lock);
	for (unsigned i = 0; i < count; i++, list->count++) {
		struct weft_path_info info;

		if (list->count >= list->max)
			continue;
		info_fill(part, i, list->nsid, &info);
		info.size = list->info_bytes;
		memcpy(list->infos + list->count * list->info_bytes, &info,
		       list->info_bytes < sizeof(info) ? list->info_bytes : sizeof(info));
	}
	pthread_mutex_unlock(&list->lock);
	part_answer(part, 0);
}

int weft_paths(struct weft_subsystem *subsystem, uint32_t nsid, struct weft_path_info *infos,
	       unsigned max)
{
	struct path_list list = {.infos = (uint8_t *)infos, .max = max, .nsid = nsid};

	if (reactor_current() != NULL)
		return -EDEADLK;
	if (max > 0) {
		list.info_bytes = infos[0].size;
		if (list.info_bytes < sizeof(size_t))
			return -EINVAL;
	}
	pthread_mutex_init(&list.lock, NULL);
	subsystem_ask(subsystem, paths_list, &list);
	pthread_mutex_destroy(&list.lock);
	return (int)list.count;
}
