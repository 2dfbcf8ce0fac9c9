/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A media registry on a simulated control reactor and two data reactors, and a kind of medium whose
 * openings end when the test says so: "late:SIZE". Media of that kind keep state per reactor and
 * count how often they are looked at. For programs with their own media_drivers.
 */
#ifndef WEFT_TESTS_LATE_WORLD_H
#define WEFT_TESTS_LATE_WORLD_H

#include "../sim/sim.h"
#include "base/clock.h"
#include "config/config_parse.h"
#include "daemon/media_registry.h"
#include "daemon/snapshot_build.h"
#include "media/driver.h"
#include "media/event.h"
#include "media/state.h"
#include "tap.h"
#include "temp_folder.h"
#include "thin_medium.h"
#include "volume/fault.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>

#define NQN "nqn.2026-11.io.weft:late"
#define U1  "'uuid':'6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e31'"
#define U2  "'uuid':'6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e32'"

static struct sim *sim;
static struct reactor *control, *datas[2];

/* ---- the kind ------------------------------------------------------------------------------- */

static unsigned open_count; /* open media of the kind */
static unsigned looked;     /* calls of `problem` */
static unsigned detached;
static bool cancel_is_ignored, detach_is_ignored;
static void *held_state; /* whose detach was ignored */

#define OPENINGS_MAX 8
static struct media_opening *openings[OPENINGS_MAX]; /* in order of opening */
static unsigned opening_count;

static void late_submit(struct media_io *io)
{
	CHECK(media_state(io->media, io->reactor));
	io->done(io, 0);
}

static void late_detach(struct media *media, struct reactor *reactor, void *own)
{
	CHECK(reactor_current() == reactor);
	if (detach_is_ignored) {
		held_state = own;
		return;
	}
	detached++;
	media_detached(own);
}

static bool late_problem(struct media *media, struct media_error *ret_problem)
{
	looked++;
	return false;
}

static void late_close(struct media *media)
{
	open_count--;
	free(media);
}

static const struct media_ops late_ops = {
	.name = "late",
	.submit = late_submit,
	.close = late_close,
	.state_bytes = 8,
	.detach = late_detach,
	.problem = late_problem,
};

static int late_open(struct media_opening *opening, struct media **ret_media,
		     struct media_error *ret_error)
{
	CHECK(opening_count < OPENINGS_MAX);
	openings[opening_count++] = opening;
	return -EINPROGRESS;
}

/* Ends the opening at this index: with a medium, or with an error. */
static void late_end(unsigned index, int res)
{
	struct media_opening *opening = openings[index];
	struct media_error error = {"late: no answer"};
	struct media *media = NULL;

	CHECK(index < opening_count);
	opening_count--;
	memmove(&openings[index], &openings[index + 1],
		(opening_count - index) * sizeof(openings[0]));
	if (res == 0) {
		media = calloc(1, sizeof(*media));
		CHECK(media != NULL);
		media->ops = &late_ops;
		media->size_bytes = opening->spec->size_bytes;
		media->block_bytes = 4096;
		media->buffer_align_bytes = 1;
		open_count++;
	}
	media_opening_end(opening, media, res, &error);
}

static void late_cancel(struct media_opening *opening)
{
	for (unsigned i = 0; i < opening_count && !cancel_is_ignored; i++) {
		if (openings[i] == opening) {
			late_end(i, -ECANCELED);
			return;
		}
	}
	CHECK(cancel_is_ignored);
}

static const struct media_driver late_driver = {
	.name = "late",
	.form = "late:SIZE",
	.kind = MEDIA_SPEC_VOLUME,
	.options = "block=",
	.open = late_open,
	.cancel = late_cancel,
};

/* Replaces the array of volume/drivers.c. */
const struct media_driver *const media_drivers[] = {
	&media_file_driver,
	&media_mem_driver,
	&media_null_driver,
	&fault_driver,
	&late_driver,
	&thin_driver,
	NULL,
};

/* ---- the registry --------------------------------------------------------------------------- */

static struct media_registry *registry;

static void run_ms(uint64_t ms)
{
	sim_run_until(sim, sim_now(sim) + ms * NS_PER_MS);
}

static void run_on(struct reactor *reactor, void (*fn)(struct reactor_msg *msg))
{
	static struct reactor_msg msg;

	reactor_post(reactor, &msg, fn);
	run_ms(1);
}

static struct config *config_of(const char *document)
{
	struct config_errors errors = {.count = 0};
	struct config *config = NULL;
	char text[4096];

	CHECK(snprintf(text, sizeof(text),
		       "{'version':1,'subsystems':[{'nqn':'" NQN "','namespaces':[%s]}]}",
		       document) < (int)sizeof(text));
	for (char *c = text; *c != 0; c++)
		*c = *c == '\'' ? '"' : *c;
	if (config_load_text(text, strlen(text), &config, &errors) < 0 ||
	    config_identify(config, NULL, &errors) < 0)
		printf("# %s\n", errors.texts[0]);
	CHECK(config != NULL);
	return config;
}

/* One change: built until it no longer needs media that open late. */
static struct config *wanted;
static struct snapshot *built;
static struct config_errors errors;
static int result; /* 1: the change waits */

static void build_on(void *arg, int res);

static void build_here(struct reactor_msg *msg)
{
	built = NULL;
	result = snapshot_from_config(wanted, registry, 1, &built, &errors);
	if (result == -EINPROGRESS) {
		result = 1;
		media_registry_wait(registry, control, build_on, NULL);
	}
}

static void build_on(void *arg, int res)
{
	if (res == 0) {
		build_here(NULL);
		return;
	}
	result = res;
	media_registry_rollback(registry);
}

/* Begins a change to these namespaces, written with apostrophes. */
__attribute__((format(printf, 1, 2))) static void change(const char *format, ...)
{
	char document[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(document, sizeof(document), format, args);
	va_end(args);
	config_free(wanted);
	wanted = config_of(document);
	errors.count = 0;
	result = 2;
	run_on(control, build_here);
}

static void commit_here(struct reactor_msg *msg)
{
	media_registry_commit(registry);
	snapshot_destroy(built);
}

static void commit(void)
{
	EXPECT_EQ(0, result);
	if (result == 0)
		run_on(control, commit_here);
}

__attribute__((unused)) static void rollback_here(struct reactor_msg *msg)
{
	snapshot_destroy(built);
	media_registry_rollback(registry);
}

static void stop_here(struct reactor_msg *msg)
{
	media_registry_stop_waiting(registry);
}

__attribute__((unused)) static bool error_has(const char *text)
{
	bool has = errors.count > 0 && strstr(errors.texts[0], text) != NULL;

	if (!has)
		printf("# error: %s\n", errors.count > 0 ? errors.texts[0] : "none");
	return has;
}

/* The medium that the snapshot has for this place in the list of namespaces. */
static struct media *media_at(unsigned index)
{
	CHECK(built && index < built->subsystems[0]->ns_count);
	return built->subsystems[0]->namespaces[index].media;
}

__attribute__((unused)) static bool file_exists(const char *name)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	return stat(path, &st) == 0;
}

static void begin(void)
{
	open_count = looked = detached = opening_count = 0;
	cancel_is_ignored = detach_is_ignored = false;
	CHECK(media_registry_create(2, &registry) == 0);
	media_registry_listen(registry, control);
}

static unsigned closed_calls;

static void on_closed(void *arg)
{
	CHECK(reactor_current() == control);
	closed_calls++;
}

static void close_here(struct reactor_msg *msg)
{
	media_registry_close(registry, control, on_closed, NULL);
}

static void end(void)
{
	closed_calls = 0;
	run_on(control, close_here);
	EXPECT_EQ(1, closed_calls);
	EXPECT_EQ(0, open_count);
	EXPECT_EQ(0, opening_count);
	config_free(wanted);
	wanted = NULL;
}

static struct reactor *reactor_make(unsigned index)
{
	const struct reactor_config config = {.index = index, .cpu = -1};
	struct reactor *reactor;

	CHECK(reactor_create(&config, &reactor) == 0);
	return reactor;
}

static void world_create(void)
{
	sim = sim_create(1, NULL);
	control = reactor_make(1000);
	datas[0] = reactor_make(0);
	datas[1] = reactor_make(1);
}

#endif
