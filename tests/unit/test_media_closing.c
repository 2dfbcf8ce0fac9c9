/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a media registry while its reactors run: state per reactor is detached there, openings
 * that were cancelled are awaited, and both have a limit. What media report while they are open is
 * heard by the registry, and by it alone.
 */
#include "late_world.h"

#include <unistd.h>

static void open_one(const char *namespaces)
{
	begin();
	change("%s", namespaces);
	while (opening_count > 0)
		late_end(0, 0);
	run_ms(1);
	commit();
}

static struct media *medium;
static int io_res;

static void io_done(struct media_io *io, int res)
{
	io_res = res;
}

static void io_here(struct reactor_msg *msg)
{
	static struct media_io io;
	static uint8_t bytes[4096];
	static struct iovec iov = {bytes, sizeof(bytes)};

	io = (struct media_io){.reactor = reactor_current(),
			       .media = medium,
			       .kind = MEDIA_WRITE,
			       .len_bytes = sizeof(bytes),
			       .iov = &iov,
			       .iov_count = 1,
			       .done = io_done};
	media_submit(&io);
}

static void io_on_all(void)
{
	struct uuid uuid;

	CHECK(uuid_parse("6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e31", &uuid) == 0);
	medium = media_registry_find(registry, &uuid);
	CHECK(medium != NULL);
	for (unsigned i = 0; i < 2; i++) {
		io_res = 1;
		run_on(datas[i], io_here);
		run_ms(5); /* a fault medium delays the write */
		EXPECT_EQ(0, io_res);
	}
}

/* ---- the end -------------------------------------------------------------------------------- */

static void media_close_where_they_were_used(void)
{
	open_one("{'media':'late:1M'," U1 "}");
	io_on_all();
	end();
	EXPECT_EQ(2, detached);
	open_one("{'media':'fault:delay:ms=1@late:1M'," U1 "}");
	io_on_all();
	end();
	EXPECT_EQ(2, detached);
}

static void detach_held_here(struct reactor_msg *msg)
{
	media_detached(held_state);
}

static void the_end_waits_for_a_slow_detach(void)
{
	open_one("{'media':'fault:delay:ms=1@late:1M'," U1 "}");
	io_on_all();
	detach_is_ignored = true;
	closed_calls = 0;
	run_on(control, close_here);
	run_ms(1000);
	EXPECT_EQ(0, closed_calls);
	detach_is_ignored = false;
	run_on(datas[0], detach_held_here);
	EXPECT_EQ(1, closed_calls);
	EXPECT_EQ(1, detached);
	EXPECT_EQ(0, open_count);
	run_ms(10000);
	EXPECT_EQ(1, closed_calls);
}

static void the_end_has_a_limit(void)
{
	open_one("{'media':'late:1M'," U1 "}");
	io_on_all();
	detach_is_ignored = true;
	closed_calls = 0;
	run_on(control, close_here);
	run_ms(4990);
	EXPECT_EQ(0, closed_calls);
	run_ms(20);
	EXPECT_EQ(1, closed_calls);
	EXPECT_EQ(1, open_count);
	/* A late detach still closes the medium. */
	detach_is_ignored = false;
	run_on(datas[0], detach_held_here);
	EXPECT_EQ(0, open_count);
	EXPECT_EQ(1, closed_calls);
}

static void the_end_waits_for_a_cancelled_opening(void)
{
	begin();
	cancel_is_ignored = true;
	change("{'media':'late:1M'}");
	run_on(control, stop_here);
	EXPECT_EQ(-ESHUTDOWN, result);
	closed_calls = 0;
	run_on(control, close_here);
	run_ms(1000);
	EXPECT_EQ(0, closed_calls);
	late_end(0, 0);
	run_ms(1);
	EXPECT_EQ(1, closed_calls);
	EXPECT_EQ(0, open_count);

	/* One that never answers is not awaited for ever. */
	begin();
	cancel_is_ignored = true;
	change("{'media':'late:1M'}");
	run_on(control, stop_here);
	closed_calls = 0;
	run_on(control, close_here);
	run_ms(5010);
	EXPECT_EQ(1, closed_calls);
	late_end(0, 0); /* nothing of the registry is left */
	EXPECT_EQ(0, open_count);
	config_free(wanted);
	wanted = NULL;
}

/* A reference of a snapshot that outlives the registry does not hold the end. */
static void a_medium_in_use_does_not_hold_the_end(void)
{
	begin();
	change("{'media':'late:1M'}");
	late_end(0, 0);
	run_ms(1);
	EXPECT_EQ(0, result);
	closed_calls = 0;
	run_on(control, close_here);
	EXPECT_EQ(1, closed_calls);
	EXPECT_EQ(1, open_count);
	snapshot_destroy(built);
	EXPECT_EQ(0, open_count);
	config_free(wanted);
	wanted = NULL;
}

/* ---- events --------------------------------------------------------------------------------- */

static void tell_here(struct reactor_msg *msg)
{
	media_tell(media_store(medium), MEDIA_EVENT_HEALTH);
	media_tell(media_store(medium), MEDIA_EVENT_SIZE);
}

static void tell_and_close_here(struct reactor_msg *msg)
{
	tell_here(msg);
	close_here(msg);
}

static void an_event_is_looked_at_at_once(void)
{
	open_one("{'media':'fault:delay:ms=1@late:1M'," U1 "},{'media':'late:1M'," U2 "}");
	io_on_all();
	looked = 0;
	run_on(datas[1], tell_here);
	EXPECT_EQ(1, looked); /* of two media, and once for both events */
	/* An event of a medium that closes in the same turn is dropped. */
	closed_calls = 0;
	run_on(control, tell_and_close_here);
	EXPECT_EQ(1, looked);
	EXPECT_EQ(1, closed_calls);
	EXPECT_EQ(0, open_count);
}

/* The medium is removed, and a snapshot still has it. */
static void a_removed_medium_is_not_heard(void)
{
	struct snapshot *held;

	begin();
	change("{'media':'late:1M'," U1 "}");
	late_end(0, 0);
	run_ms(1);
	medium = media_at(0);
	held = built;
	built = NULL; /* commit_here destroys none */
	run_on(control, commit_here);
	change("{'media':'mem:1M'," U2 "}");
	commit();
	looked = 0;
	run_on(datas[0], tell_here);
	EXPECT_EQ(0, looked);
	snapshot_destroy(held);
	EXPECT_EQ(0, open_count);
	end();
}

/* ---- a file that grows ---------------------------------------------------------------------- */

static unsigned told_calls, told_events;

static void on_told(struct media_listener *listener, struct media *media, unsigned events)
{
	told_calls++;
	told_events = events;
}

static void file_resize(const char *path, off_t bytes)
{
	CHECK(truncate(path, bytes) == 0);
}

/* The size is looked at with writes and flushes, and with questions of control. */
static void look_here(struct reactor_msg *msg)
{
	EXPECT(!media_is_cut(medium));
}

static void a_file_that_grows_says_so(void)
{
	struct media_listener listener = {.reactor = control, .told = on_told};
	struct media_error error;
	char path[64], spec[96];
	FILE *file;

	snprintf(path, sizeof(path), "%s/grows", root);
	file = fopen(path, "w");
	CHECK(file && fclose(file) == 0);
	file_resize(path, 1 << 20);
	snprintf(spec, sizeof(spec), "file:%s", path);
	CHECK(media_open(spec, &medium, &error) == 0 && media_listen(medium, &listener) == 0);
	run_on(control, look_here);
	EXPECT_EQ(0, told_calls);
	file_resize(path, (1 << 20) + 4095); /* no whole block more */
	run_on(control, look_here);
	EXPECT_EQ(0, told_calls);
	file_resize(path, 2 << 20);
	run_on(control, look_here);
	run_on(control, look_here);
	EXPECT_EQ(1, told_calls);
	EXPECT_EQ(MEDIA_EVENT_SIZE, told_events);
	EXPECT(!media_is_current(medium, spec));
	file_resize(path, 3 << 20);
	run_on(control, look_here);
	EXPECT_EQ(2, told_calls);
	media_close(medium);

	/* With size= the file may be larger. */
	snprintf(spec, sizeof(spec), "file:%s,size=3M", path);
	CHECK(media_open(spec, &medium, &error) == 0 && media_listen(medium, &listener) == 0);
	file_resize(path, 4 << 20);
	run_on(control, look_here);
	EXPECT_EQ(2, told_calls);
	media_close(medium);
}

int main(void)
{
	if (!root_make())
		return 1;
	world_create();
	TAP_RUN(media_close_where_they_were_used);
	TAP_RUN(the_end_waits_for_a_slow_detach);
	TAP_RUN(the_end_has_a_limit);
	TAP_RUN(the_end_waits_for_a_cancelled_opening);
	TAP_RUN(a_medium_in_use_does_not_hold_the_end);
	TAP_RUN(an_event_is_looked_at_at_once);
	TAP_RUN(a_removed_medium_is_not_heard);
	TAP_RUN(a_file_that_grows_says_so);
	sim_destroy(sim);
	return root_end();
}
