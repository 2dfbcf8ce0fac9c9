/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An instance: its reactors, each on a thread of its own with all signals blocked, and the names of
 * this host. Runs on the thread that creates or destroys the instance. No state is shared between
 * instances; a reactor's thread knows its own instance.
 */
#include "base/log.h"
#include "base/text.h"
#include "lib/host_names.h"
#include "lib/lib.h"
#include "reactor/uring_remedy.h"
#include "wire/nqn.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define REACTORS_MAX 1024

static _Thread_local struct weft *weft_of_this_thread;

const char *weft_version(void)
{
	return WEFT_VERSION;
}

struct weft *lib_of_thread(void)
{
	return weft_of_this_thread;
}

void lib_log(const struct weft *weft, int level, const char *line)
{
	if (weft->log != NULL)
		weft->log(weft->log_arg, level - LOG_LEVEL_ERROR, line);
}

int lib_fail(struct weft_error *error, int res, const char *format, ...)
{
	va_list args;

	if (error == NULL)
		return res;
	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return res;
}

int lib_struct_take(void *to, size_t to_bytes, const void *from, size_t from_bytes)
{
	const uint8_t *bytes = from;

	memset(to, 0, to_bytes);
	if (from_bytes < sizeof(size_t))
		return -EINVAL;
	for (size_t i = to_bytes; i < from_bytes; i++) {
		if (bytes[i] != 0)
			return -E2BIG;
	}
	memcpy(to, from, from_bytes < to_bytes ? from_bytes : to_bytes);
	return 0;
}

void weft_options_init(struct weft_options *options)
{
	*options = (struct weft_options){.size = sizeof(*options), .reactors = 1};
}

static int options_take(struct weft_options *to, const struct weft_options *from,
			struct weft_error *error)
{
	int res;

	weft_options_init(to);
	if (from != NULL) {
		res = lib_struct_take(to, sizeof(*to), from, from->size);
		if (res != 0)
			return lib_fail(error, res,
					"struct weft_options is not for this libweft (%s); call "
					"weft_options_init first",
					WEFT_VERSION);
	}
	if (to->reactors == 0)
		to->reactors = 1;
	if (to->reactors > REACTORS_MAX)
		return lib_fail(error, -EINVAL, "%u reactors are too many; %u at most",
				to->reactors, REACTORS_MAX);
	if (to->callbacks != WEFT_CALLBACKS_REACTOR && to->callbacks != WEFT_CALLBACKS_POLL)
		return lib_fail(error, -EINVAL, "unknown kind of callbacks %d", (int)to->callbacks);
	return 0;
}

static int names_take(struct weft *weft, const struct weft_options *options,
		      struct weft_error *error)
{
	if (options->host_nqn != NULL) {
		const char *problem = nqn_problem(options->host_nqn);

		if (problem != NULL)
			return lib_fail(error, -EINVAL, "the host NQN \"%s\" %s", options->host_nqn,
					problem);
		text_copy(weft->host_nqn, sizeof(weft->host_nqn), options->host_nqn);
	} else {
		host_names_nqn(weft->host_nqn);
	}
	if (options->host_id == NULL)
		host_names_id(&weft->host_id);
	else if (uuid_parse(options->host_id, &weft->host_id) != 0)
		return lib_fail(error, -EINVAL, "the host identifier \"%s\" is not a UUID",
				options->host_id);
	return 0;
}

static void *reactor_main(void *arg)
{
	struct lib_reactor *own = arg;

	weft_of_this_thread = own->weft;
	reactor_run(own->reactor);
	return NULL;
}

static int reactor_start(struct weft *weft, const struct weft_options *options)
{
	unsigned index = weft->reactor_count;
	struct lib_reactor *own = &weft->reactors[index];
	struct reactor_config config = {
		.index = index,
		.cpu = options->cpus != NULL ? options->cpus[index] : -1,
		.spin_max_us = options->spin_us,
	};
	sigset_t all, before;
	int res = reactor_create(&config, &own->reactor);

	if (res != 0)
		return res;
	own->weft = weft;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	res = -pthread_create(&own->thread, NULL, reactor_main, own);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (res != 0)
		reactor_destroy(own->reactor);
	else
		weft->reactor_count++;
	return res;
}

static void weft_free(struct weft *weft)
{
	for (unsigned i = 0; i < weft->reactor_count; i++)
		reactor_stop(weft->reactors[i].reactor);
	for (unsigned i = 0; i < weft->reactor_count; i++)
		pthread_join(weft->reactors[i].thread, NULL);
	for (unsigned i = 0; i < weft->reactor_count; i++)
		reactor_destroy(weft->reactors[i].reactor);
	if (weft->event_fd >= 0)
		close(weft->event_fd);
	free(weft->sysfs);
	free(weft);
}

static int weft_start(struct weft *weft, const struct weft_options *options,
		      struct weft_error *error)
{
	int res = names_take(weft, options, error);

	if (res != 0)
		return res;
	if (weft->callbacks == WEFT_CALLBACKS_POLL) {
		weft->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (weft->event_fd < 0) {
			res = -errno;
			return lib_fail(error, res, "cannot make an eventfd: %s", strerror(-res));
		}
	}
	for (unsigned i = 0; i < options->reactors; i++) {
		res = reactor_start(weft, options);
		if (res != 0)
			return lib_fail(error, res, "cannot start reactor %u: %s; %s", i,
					strerror(-res), uring_remedy(res));
	}
	return 0;
}

int weft_create(const struct weft_options *user_options, struct weft **ret_weft,
		struct weft_error *error)
{
	struct weft_options options;
	struct weft *weft;
	int res;

	if (error != NULL)
		*error = (struct weft_error){0};
	res = options_take(&options, user_options, error);
	if (res != 0)
		return res;
	weft = calloc(1, sizeof(*weft) + options.reactors * sizeof(weft->reactors[0]));
	if (weft == NULL)
		return lib_fail(error, -ENOMEM, "out of memory");
	weft->callbacks = options.callbacks;
	weft->is_numa_aware = options.is_numa_aware;
	weft->has_cpus = options.cpus != NULL;
	weft->log = options.log;
	weft->log_arg = options.log_arg;
	weft->event_fd = -1;
	weft->sysfs = strdup(options.sysfs != NULL ? options.sysfs : "/sys");
	if (weft->sysfs == NULL)
		res = lib_fail(error, -ENOMEM, "out of memory");
	else
		res = weft_start(weft, &options, error);
	if (res != 0) {
		weft_free(weft);
		return res;
	}
	*ret_weft = weft;
	return 0;
}

void weft_destroy(struct weft *weft)
{
	if (weft == NULL)
		return;
	CHECK(atomic_load(&weft->subsystem_count) == 0 && reactor_current() == NULL);
	weft_free(weft);
}
