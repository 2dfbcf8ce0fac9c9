/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a namespace given by flags or a URL, through libweft's public interface alone. Main thread,
 * which blocks. Later events on paths are printed to standard error by libweft's threads, one line
 * each.
 */
#include "client/ns_handle.h"

#include "base/check.h"
#include "base/log.h"
#include "base/tool_error.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NSIDS_SHOWN 8

int ns_instance_create(const struct ns_options *options, enum weft_callbacks callbacks,
		       struct weft **ret_weft)
{
	struct weft_options weft_options;
	struct weft_error error;
	int res;

	/* subsystem_event prints the events on paths. */
	log_set_level(LOG_LEVEL_ERROR);
	weft_options_init(&weft_options);
	weft_options.callbacks = callbacks;
	weft_options.host_nqn = options->host_nqn;
	weft_options.host_id = options->host_id;
	res = weft_create(&weft_options, ret_weft, &error);
	if (res != 0)
		tool_error(options->command, "%s", error.text);
	return res;
}

/* Runs on libweft's threads. */
static void subsystem_event(void *arg, const char *line)
{
	const struct ns_options *options = arg;
	uint64_t one = 1;

	if (!options->is_quiet)
		tool_error(options->command, "%s", line);
	/* Write fails only when the counter is full; the descriptor is readable then. */
	if (options->event_fd > 0 && write(options->event_fd, &one, sizeof(one)) < 0)
		return;
}

static int subsystem_open(struct weft *weft, const struct ns_options *options,
			  const struct ns_where *where, struct weft_subsystem **ret_subsystem)
{
	struct weft_open_options open_options;
	struct weft_error error;
	sigset_t set, before;
	int res;

	weft_open_options_init(&open_options);
	open_options.subsystem_nqn = where->nqn;
	open_options.paths = where->paths;
	open_options.path_count = where->path_count;
	if (where->discovery.address != NULL)
		open_options.discovery = &where->discovery;
	open_options.profile = options->profile;
	open_options.policy = options->policy;
	open_options.timeouts = options->timeouts[0] != '\0' ? options->timeouts : NULL;
	open_options.header_digest = options->header_digest;
	open_options.data_digest = options->data_digest;
	open_options.event = subsystem_event;
	/* Casts away const: subsystem_event gets the pointer back and does not write through it. */
	open_options.event_arg = (void *)(uintptr_t)options;
	/* A signal may end the process while it connects, because nothing is lost then. */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_UNBLOCK, &set, &before);
	res = weft_open(weft, &open_options, ret_subsystem, &error);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (res != 0)
		tool_error(options->command, "%s", error.text);
	return res;
}

/* Returns the only namespace of the subsystem. 0, or -errno after a message. */
static int nsid_choose(struct weft_subsystem *subsystem, const char *command, uint32_t *ret_nsid)
{
	uint32_t nsids[NSIDS_SHOWN];
	int count = weft_ns_list(subsystem, nsids, NSIDS_SHOWN);
	char list[NSIDS_SHOWN * 12] = "";

	if (count < 0) {
		tool_error(command, "cannot list the namespaces: %s", strerror(-count));
		return count;
	}
	if (count == 1) {
		*ret_nsid = nsids[0];
		return 0;
	}
	for (int i = 0; i < count && i < NSIDS_SHOWN; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), " %u", nsids[i]);
	if (count == 0)
		tool_error(command, "the subsystem has no namespace for this host");
	else
		tool_error(command, "the subsystem has namespaces%s%s; choose one with --nsid",
			   list, count > NSIDS_SHOWN ? " ..." : "");
	return -ENOENT;
}

int ns_handle_open(struct weft *weft, const struct ns_options *options,
		   const struct ns_where *where, struct ns_handle *ret_handle)
{
	struct weft_error error;
	uint32_t nsid = where->nsid;
	int res;

	memset(ret_handle, 0, sizeof(*ret_handle));
	ret_handle->info.size = sizeof(ret_handle->info);
	res = subsystem_open(weft, options, where, &ret_handle->subsystem);
	if (res == 0 && nsid == 0)
		res = nsid_choose(ret_handle->subsystem, options->command, &nsid);
	if (res == 0) {
		res = weft_ns_open(ret_handle->subsystem, nsid, &ret_handle->ns, &error);
		if (res != 0)
			tool_error(options->command, "%s", error.text);
		else
			res = weft_ns_info(ret_handle->ns, &ret_handle->info);
	}
	if (res != 0)
		ns_handle_close(ret_handle);
	return res;
}

void ns_handle_close(struct ns_handle *handle)
{
	if (handle->ns != NULL)
		weft_ns_close(handle->ns);
	if (handle->subsystem != NULL)
		weft_close(handle->subsystem);
	memset(handle, 0, sizeof(*handle));
}
