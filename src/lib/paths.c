/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths of an open subsystem: adds, removes and lists paths and their queues. The caller's thread
 * asks the part of every reactor and waits. If one reactor refuses a new path, the others remove it
 * again, so that all reactors have the same paths.
 */
#include "base/text.h"
#include "lib/lib.h"
#include "wire/nvme_tcp.h"

#include <errno.h>
#include <string.h>

static void path_add(struct part *part, void *arg)
{
	const struct host_addr *addr = arg;
	int res = mpath_add_path(part->mpath, addr);

	if (res == 0)
		placement_tell(part, addr);
	part_answer(part, res);
}

static void path_remove(struct part *part, void *arg)
{
	part_answer(part, mpath_remove_path(part->mpath, arg));
}

/* Undoes an addition on the reactors where it succeeded. */
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

static int path_fail(struct weft_error *error, int res, const struct host_addr *addr)
{
	char address[HOST_ADDR_TEXT_BYTES];

	host_addr_format(addr, address);
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

static int path_begin(const struct weft_path *path, struct host_addr *ret_addr,
		      struct weft_error *error)
{
	if (error != NULL)
		*error = (struct weft_error){0};
	if (reactor_current() != NULL)
		return lib_fail(error, -EDEADLK,
				"adding and removing paths waits: not allowed in a callback");
	return open_args_resolve(path, NVME_TCP_DEFAULT_PORT, ret_addr, error);
}

int weft_path_add(struct weft_subsystem *subsystem, const struct weft_path *path,
		  struct weft_error *error)
{
	struct host_addr addr;
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
	struct host_addr addr;
	int res = path_begin(path, &addr, error);

	if (res != 0)
		return res;
	subsystem_ask(subsystem, path_remove, &addr);
	res = answers_first(subsystem);
	return res == 0 ? 0 : path_fail(error, res, &addr);
}

/* ---- lists of paths and queues -------------------------------------------------------------- */

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

/* The output of one weft_paths or weft_queues call. The parts fill it in one after the other, under
 * the lock. */
struct info_list {
	pthread_mutex_t lock;
	uint8_t *infos;
	size_t info_bytes; /* size of the struct as the caller compiled it */
	unsigned max;
	unsigned count;
	uint32_t nsid;
};

/* Counts one entry, and copies the part of it that fits the caller's struct. */
static void info_add(struct info_list *list, const void *info, size_t info_bytes)
{
	size_t bytes = list->info_bytes < info_bytes ? list->info_bytes : info_bytes;

	if (list->count < list->max) {
		uint8_t *to = list->infos + list->count * list->info_bytes;

		memcpy(to, info, bytes);
		memcpy(to, &list->info_bytes, sizeof(list->info_bytes)); /* `size` is first */
	}
	list->count++;
}

/* The first member of infos[0] is the size of the caller's struct. */
static int info_collect(struct weft_subsystem *subsystem, void (*fn)(struct part *part, void *arg),
			struct info_list *list)
{
	if (reactor_current() != NULL)
		return -EDEADLK;
	if (list->max > 0) {
		memcpy(&list->info_bytes, list->infos, sizeof(list->info_bytes));
		if (list->info_bytes < sizeof(size_t))
			return -EINVAL;
	}
	pthread_mutex_init(&list->lock, NULL);
	subsystem_ask(subsystem, fn, list);
	pthread_mutex_destroy(&list->lock);
	return (int)list->count;
}

static void path_info_fill(const struct part *part, unsigned index, uint32_t nsid,
			   struct weft_path_info *to)
{
	char address[HOST_ADDR_TEXT_BYTES];
	struct path_info info;

	mpath_path_info(part->mpath, index, &info);
	*to = (struct weft_path_info){
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
	text_copy(to->address, sizeof(to->address), host_addr_format(&info.addr, address));
	text_copy(to->state, sizeof(to->state), state_name(&info));
	text_copy(to->last_error, sizeof(to->last_error), info.last_error);
	if (nsid != 0)
		text_copy(to->ana_state, sizeof(to->ana_state),
			  ana_state_name(mpath_path_ana(part->mpath, index, nsid)));
}

static void paths_list(struct part *part, void *arg)
{
	unsigned count = mpath_path_count(part->mpath);
	struct info_list *list = arg;

	pthread_mutex_lock(&list->lock);
	for (unsigned i = 0; i < count; i++) {
		struct weft_path_info info;

		path_info_fill(part, i, list->nsid, &info);
		info_add(list, &info, sizeof(info));
	}
	pthread_mutex_unlock(&list->lock);
	part_answer(part, 0);
}

int weft_paths(struct weft_subsystem *subsystem, uint32_t nsid, struct weft_path_info *infos,
	       unsigned max)
{
	struct info_list list = {.infos = (uint8_t *)infos, .max = max, .nsid = nsid};

	return info_collect(subsystem, paths_list, &list);
}

static void queue_info_add(const struct part *part, unsigned index, struct info_list *list)
{
	struct path_info path;

	mpath_path_info(part->mpath, index, &path);
	if (path.state != PATH_LIVE)
		return;
	for (unsigned i = 0; i < path.queue_count; i++) {
		struct weft_queue_info info = {
			.reactor = part->index, .queue = i + 1, .depth = path.queue_depth};
		char address[HOST_ADDR_TEXT_BYTES];
		struct path_queue_info queue;

		mpath_path_queue_info(part->mpath, index, i, &queue);
		info.in_flight = queue.in_flight;
		info.latency_ns = queue.latency_ns;
		info.commands = queue.commands;
		text_copy(info.address, sizeof(info.address),
			  host_addr_format(&path.addr, address));
		info_add(list, &info, sizeof(info));
	}
}

static void queues_list(struct part *part, void *arg)
{
	unsigned count = mpath_path_count(part->mpath);
	struct info_list *list = arg;

	pthread_mutex_lock(&list->lock);
	for (unsigned i = 0; i < count; i++)
		queue_info_add(part, i, list);
	pthread_mutex_unlock(&list->lock);
	part_answer(part, 0);
}

int weft_queues(struct weft_subsystem *subsystem, struct weft_queue_info *infos, unsigned max)
{
	struct info_list list = {.infos = (uint8_t *)infos, .max = max};

	return info_collect(subsystem, queues_list, &list);
}
