/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A handle stands for one namespace, by its UUID, not for whatever has its NSID. When a namespace
 * is deleted and another one gets the NSID, requests end with -ESTALE on all reactors at once, and
 * nothing is written to the new namespace.
 */
#include "lib_world.h"

#define REACTORS  3
#define BLOCK_MAX 4096

static struct weft *weft;

/* Reads or writes the first block on this reactor. */
static int block_on(struct weft_ns *ns, enum weft_op op, unsigned reactor, uint8_t *bytes)
{
	struct weft_ns_info info = {.size = sizeof(info)};
	struct iovec iov = {.iov_base = bytes};
	struct weft_request request = {
		.op = op, .block_count = 1, .iov = &iov, .iov_count = 1, .reactor = reactor};

	weft_ns_info(ns, &info);
	iov.iov_len = info.block_bytes;
	return weft_run(ns, &request);
}

static int write_on(struct weft_ns *ns, unsigned reactor, uint8_t *bytes)
{
	return block_on(ns, WEFT_WRITE, reactor, bytes);
}

static int read_on(struct weft_ns *ns, unsigned reactor, uint8_t *bytes)
{
	return block_on(ns, WEFT_READ, reactor, bytes);
}

/* Repeats a read on reactor 0 until it ends with `res`. */
static bool until_read_ends_with(struct weft_ns *ns, int res)
{
	uint8_t bytes[BLOCK_MAX];

	for (int i = 0; i < 2000; i++) {
		if (read_on(ns, 0, bytes) == res)
			return true;
		usleep(10000); /* poll with a deadline */
	}
	return false;
}

static struct weft_ns *until_opened(struct weft_subsystem *subsystem,
				    const struct weft_ns_info * not )
{
	struct weft_ns_info info = {.size = sizeof(info)};
	struct weft_ns *ns = NULL;

	for (int i = 0; i < 2000; i++) {
		if (weft_ns_open(subsystem, NS_LEAVING, &ns, NULL) == 0) {
			weft_ns_info(ns, &info);
			if (memcmp(info.uuid, not ->uuid, sizeof(info.uuid)) != 0)
				return ns;
			weft_ns_close(ns);
		}
		usleep(10000); /* poll with a deadline */
	}
	printf("Bail out! the new namespace does not come\n");
	exit(1);
}

static bool until_readable_everywhere(struct weft_ns *ns)
{
	uint8_t bytes[BLOCK_MAX];

	for (int i = 0; i < 2000; i++) {
		int res = 0;

		for (unsigned k = 0; res == 0 && k < REACTORS; k++)
			res = read_on(ns, k, bytes);
		if (res == 0)
			return true;
		usleep(10000); /* poll with a deadline: each reactor learns of it separately */
	}
	return false;
}

/* The new namespace must hold only zeroes. */
static void expect_untouched(struct weft_ns *ns)
{
	static const uint8_t zeroes[BLOCK_MAX];
	uint8_t bytes[BLOCK_MAX];

	EXPECT(until_readable_everywhere(ns));
	EXPECT_EQ(0, read_on(ns, 0, bytes));
	EXPECT(memcmp(bytes, zeroes, 512) == 0);
}

static void is_stale_on_all_reactors_when_its_nsid_is_another_ones(void)
{
	struct weft_ns_info first = {.size = sizeof(first)}, info = {.size = sizeof(info)};
	struct weft_subsystem *subsystem = world_open(weft);
	struct weft_ns *ns = world_ns(subsystem, NS_LEAVING);
	struct weft_ns *next;
	uint8_t bytes[BLOCK_MAX];

	EXPECT_EQ(0, weft_ns_info(ns, &first));
	world_fill(bytes, sizeof(bytes), 1);
	/* Reactor 1 carries no request of this handle before the namespace is replaced. */
	EXPECT_EQ(0, write_on(ns, 0, bytes));
	world_ask("replace namespace");
	EXPECT(until_read_ends_with(ns, -ESTALE));
	for (unsigned i = 0; i < REACTORS; i++)
		EXPECT_EQ(-ESTALE, write_on(ns, i, bytes));
	EXPECT_EQ(-ESTALE, weft_flush(ns));
	EXPECT_EQ(0, weft_ns_info(ns, &info));
	EXPECT(info.is_stale && info.is_gone);
	EXPECT(memcmp(info.uuid, first.uuid, sizeof(info.uuid)) == 0);
	next = until_opened(subsystem, &first);
	expect_untouched(next);
	EXPECT_EQ(0, weft_ns_info(next, &info));
	EXPECT(!info.is_stale && !info.is_gone);
	EXPECT_EQ(0, write_on(next, 1, bytes));
	for (unsigned i = 0; i < REACTORS; i++)
		EXPECT_EQ(-ESTALE, read_on(ns, i, bytes));
	weft_ns_close(next);
	weft_ns_close(ns);
	weft_close(subsystem);
}

/* Sizes are those of the handle's own namespace, never 0 in between. */
static void keeps_the_size_of_its_own_namespace(void)
{
	struct weft_ns_info first = {.size = sizeof(first)}, info = {.size = sizeof(info)};
	struct weft_subsystem *subsystem = world_open(weft);
	struct weft_ns *ns = world_ns(subsystem, NS_LEAVING);
	struct weft_ns *next;

	EXPECT_EQ(0, weft_ns_info(ns, &first));
	world_ask("replace namespace by a larger one");
	EXPECT(until_read_ends_with(ns, -ESTALE));
	EXPECT_EQ(0, weft_ns_info(ns, &info));
	EXPECT_EQ(512, info.block_bytes);
	EXPECT_EQ(first.block_count, info.block_count);
	next = until_opened(subsystem, &first);
	EXPECT_EQ(0, weft_ns_info(next, &info));
	EXPECT_EQ(4096, info.block_bytes);
	EXPECT_EQ(512, info.block_count);
	weft_ns_close(next);
	weft_ns_close(ns);
	weft_close(subsystem);
}

/* A stale handle stays stale: writes meanwhile went to another namespace. */
static void stays_stale_when_the_first_one_comes_back(void)
{
	struct weft_ns_info second = {.size = sizeof(second)};
	struct weft_subsystem *subsystem = world_open(weft);
	struct weft_ns *ns = world_ns(subsystem, NS_LEAVING);
	struct weft_ns *back;
	uint8_t bytes[BLOCK_MAX];

	EXPECT_EQ(0, weft_ns_info(ns, &second));
	world_ask("give namespace back");
	EXPECT(until_read_ends_with(ns, -ESTALE));
	back = until_opened(subsystem, &second);
	EXPECT(until_readable_everywhere(back));
	world_ask("replace namespace by a larger one");
	EXPECT(until_read_ends_with(back, -ESTALE));
	for (unsigned i = 0; i < REACTORS; i++) {
		EXPECT_EQ(-ESTALE, read_on(ns, i, bytes));
		EXPECT_EQ(-ESTALE, read_on(back, i, bytes));
	}
	weft_ns_close(back);
	weft_ns_close(ns);
	weft_close(subsystem);
}

/* A deleted namespace gives -ENXIO; the same namespace may come back. */
static void is_usable_again_when_the_same_namespace_comes_back(void)
{
	struct weft_subsystem *subsystem;
	struct weft_ns_info info = {.size = sizeof(info)};
	struct weft_ns *ns;

	world_ask("give namespace back");
	subsystem = world_open(weft);
	ns = world_ns(subsystem, NS_LEAVING);
	world_ask("remove namespace");
	EXPECT(until_read_ends_with(ns, -ENXIO));
	EXPECT_EQ(0, weft_ns_info(ns, &info));
	EXPECT(info.is_gone && !info.is_stale);
	world_ask("give namespace back");
	EXPECT(until_readable_everywhere(ns));
	EXPECT_EQ(0, weft_ns_info(ns, &info));
	EXPECT(!info.is_gone && !info.is_stale);
	weft_ns_close(ns);
	weft_close(subsystem);
}

/* A restarted target has another namespace under the NSID. */
static void is_stale_when_the_target_comes_back_with_another_namespace(void)
{
	struct weft_ns_info first = {.size = sizeof(first)};
	struct weft_open_options options;
	struct weft_subsystem *subsystem = NULL;
	struct weft_path path;
	struct weft_ns *ns, *next;
	uint8_t bytes[BLOCK_MAX];

	world_open_options(&options, &path);
	options.profile = "training";
	options.timeouts = "reconnect-max=200ms,reconnect-min=50ms";
	EXPECT_EQ(0, weft_open(weft, &options, &subsystem, NULL));
	ns = world_ns(subsystem, NS_LEAVING);
	EXPECT_EQ(0, weft_ns_info(ns, &first));
	world_fill(bytes, sizeof(bytes), 2);
	EXPECT_EQ(0, write_on(ns, 0, bytes));
	world_ask("restart target with another namespace");
	/* The write waits for the path and is not sent to the new namespace. */
	for (unsigned i = 0; i < REACTORS; i++)
		EXPECT_EQ(-ESTALE, write_on(ns, i, bytes));
	next = until_opened(subsystem, &first);
	expect_untouched(next);
	weft_ns_close(next);
	weft_ns_close(ns);
	weft_close(subsystem);
}

int main(void)
{
	struct weft_options options;

	weft_options_init(&options);
	options.reactors = REACTORS;
	weft = world_create(&options);
	TAP_RUN(is_stale_on_all_reactors_when_its_nsid_is_another_ones);
	TAP_RUN(keeps_the_size_of_its_own_namespace);
	TAP_RUN(stays_stale_when_the_first_one_comes_back);
	TAP_RUN(is_usable_again_when_the_same_namespace_comes_back);
	TAP_RUN(is_stale_when_the_target_comes_back_with_another_namespace);
	weft_destroy(weft);
	return tap_end();
}
