/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ANA log against a plain reference that builds the whole page: every window of it, for hosts
 * that see all, some and no namespaces, also with 1,000 groups and 10,000 namespaces. Also how its
 * change counts continue from one snapshot to the next, with the delta. Pure.
 */
#include "tap.h"

#include "base/check.h"
#include "base/le.h"
#include "base/prng.h"
#include "base/text.h"
#include "target/ana_index.h"
#include "target/delta.h"
#include "target/log.h"

#include <stdlib.h>

#define PAGE_MAX     (128 * 1024)
#define SENTINEL     0xa5
#define SMALL_STEP   4
#define MANY_GROUPS  1000
#define MANY_NS      10000
#define CHANGE_COUNT 0x1122334455667788ull

static uint32_t get32(const uint8_t *bytes)
{
	le32 v;

	memcpy(v.bytes, bytes, sizeof(v));
	return le32_get(v);
}

static void put32(uint8_t *bytes, uint32_t value)
{
	le32 v = le32_of(value);

	memcpy(bytes, v.bytes, sizeof(v));
}

static void put64(uint8_t *bytes, uint64_t value)
{
	put32(bytes, (uint32_t)value);
	put32(bytes + 4, (uint32_t)(value >> 32));
}

/* ---- scenes ---------------------------------------------------------------------------------- */

static struct subsystem *build(unsigned count, const uint32_t *groups, unsigned group_count)
{
	struct subsystem *subsystem = calloc(1, sizeof(*subsystem));

	CHECK(subsystem);
	text_copy(subsystem->nqn, sizeof(subsystem->nqn), "nqn.2026-11.io.weft:test");
	subsystem->namespaces = ns_array_create(count);
	CHECK(subsystem->namespaces);
	subsystem->ns_count = count;
	for (unsigned i = 0; i < count; i++)
		subsystem->namespaces[i] =
			(struct ns){.nsid = i + 1 + i / 3, .ana_group = groups[i % group_count]};
	return subsystem;
}

static void index_it(struct subsystem *subsystem)
{
	CHECK(ana_index_create(subsystem, &subsystem->ana) == 0);
}

static void destroy(struct subsystem *subsystem)
{
	ana_index_destroy(subsystem->ana);
	free(subsystem->namespaces);
	free(subsystem);
}

static struct ana_group_state states[] = {{2, ANA_INACCESSIBLE}, {9, ANA_NON_OPTIMIZED}};
static const struct port port = {.id = 1, .ana = states, .ana_count = 2};

static uint64_t write_ana(const struct subsystem *subsystem, const struct port *at,
			  uint32_t host_index, bool is_groups_only, struct log_window window)
{
	struct log_ana_view view = {subsystem, at, host_index, CHANGE_COUNT};

	return log_ana_write(&view, is_groups_only, &window);
}

/* Builds the whole page by the specification, group by group, without an index. */
static uint64_t reference(const struct subsystem *subsystem, const struct port *at,
			  uint32_t host_index, bool is_groups_only, uint8_t *page)
{
	uint64_t end = 16;
	unsigned groups = 0;

	memset(page, 0, PAGE_MAX);
	for (uint32_t group = 1; group <= TARGET_ANA_GROUP_MAX; group++) {
		uint8_t *descriptor = page + end;
		uint32_t count = 0;

		for (unsigned i = 0; i < subsystem->ns_count; i++) {
			const struct ns *ns = &subsystem->namespaces[i];

			if (ns->ana_group != group || !ns_mask_has(ns->mask, host_index))
				continue;
			if (!is_groups_only)
				put32(descriptor + 32 + 4 * count, ns->nsid);
			count++;
		}
		if (count == 0)
			continue;
		put32(descriptor, group);
		put32(descriptor + 4, is_groups_only ? 0 : count);
		put64(descriptor + 8, 1);
		descriptor[16] = (uint8_t)ANA_OPTIMIZED;
		for (unsigned i = 0; i < at->ana_count; i++)
			if (at->ana[i].group == group)
				descriptor[16] = (uint8_t)at->ana[i].state;
		end += 32 + (is_groups_only ? 0 : 4 * count);
		groups++;
	}
	if (groups == 0) {
		put32(page + end, 1);
		put64(page + end + 8, 1);
		page[end + 16] = (uint8_t)ANA_OPTIMIZED;
		end += 32;
		groups = 1;
	}
	put64(page, CHANGE_COUNT);
	page[8] = (uint8_t)groups;
	page[9] = (uint8_t)(groups >> 8);
	return end;
}

/* A reader of the page, and the whole page that it should get. */
struct reader {
	const struct subsystem *subsystem;
	const struct port *at;
	uint32_t host_index;
	bool is_groups_only;
	const uint8_t *whole;
	uint64_t size;
};

static bool window_is_right(const struct reader *reader, struct log_window window)
{
	memset(window.buf, 0, window.len_bytes);
	memset(window.buf + window.len_bytes, SENTINEL, 8);
	if (write_ana(reader->subsystem, reader->at, reader->host_index, reader->is_groups_only,
		      window) != reader->size) {
		printf("# another size\n");
		return false;
	}
	if (memcmp(window.buf, reader->whole + window.offset, window.len_bytes) == 0 &&
	    window.buf[window.len_bytes] == SENTINEL &&
	    window.buf[window.len_bytes + 7] == SENTINEL)
		return true;
	printf("# offset %llu length %u\n", (unsigned long long)window.offset, window.len_bytes);
	return false;
}

static void check_windows(const struct subsystem *subsystem, const struct port *at,
			  uint32_t host_index, bool is_groups_only, uint32_t len_max)
{
	static uint8_t whole[PAGE_MAX], part[PAGE_MAX];
	struct reader reader = {subsystem, at, host_index, is_groups_only, whole, 0};
	bool is_right;

	reader.size = reference(subsystem, at, host_index, is_groups_only, whole);
	EXPECT(reader.size + len_max + 16 < PAGE_MAX);
	is_right =
		window_is_right(&reader, (struct log_window){part, 0, (uint32_t)reader.size + 64});
	for (uint32_t offset = 0; is_right && offset <= reader.size + 8; offset += SMALL_STEP)
		for (uint32_t len = SMALL_STEP; is_right && len <= len_max; len *= 2)
			is_right = window_is_right(&reader, (struct log_window){part, offset, len});
	EXPECT(is_right);
}

/* ---- pages ---------------------------------------------------------------------------------- */

static void page_lists_groups_in_order(void)
{
	static const uint32_t groups[] = {9, 1, 2, 9, 1};
	struct subsystem *subsystem = build(5, groups, 5);
	uint8_t page[256] = {0};
	uint64_t size;

	index_it(subsystem);
	size = write_ana(subsystem, &port, 0, false, (struct log_window){page, 0, sizeof(page)});
	EXPECT_EQ(16 + 3 * 32 + 5 * 4, size);
	EXPECT_EQ((uint32_t)CHANGE_COUNT, get32(page));
	EXPECT_EQ(3, page[8]);
	/* group 1: optimized, NSIDs 2 and 6 */
	EXPECT_EQ(1, get32(page + 16));
	EXPECT_EQ(2, get32(page + 20));
	EXPECT_EQ(1, get32(page + 24));
	EXPECT_EQ(ANA_OPTIMIZED, page[16 + 16]);
	EXPECT_EQ(2, get32(page + 48));
	EXPECT_EQ(6, get32(page + 52));
	/* group 2: inaccessible, NSID 3 */
	EXPECT_EQ(2, get32(page + 56));
	EXPECT_EQ(1, get32(page + 60));
	EXPECT_EQ(ANA_INACCESSIBLE, page[56 + 16]);
	EXPECT_EQ(3, get32(page + 88));
	/* group 9: not optimized, NSIDs 1 and 5 */
	EXPECT_EQ(9, get32(page + 92));
	EXPECT_EQ(ANA_NON_OPTIMIZED, page[92 + 16]);
	EXPECT_EQ(1, get32(page + 124));
	EXPECT_EQ(5, get32(page + 128));
	destroy(subsystem);
}

static void small_pages_in_every_window(void)
{
	static const uint32_t groups[] = {1, 2, 9, 2, 1, 1, 128, 2, 3};
	struct subsystem *subsystem = build(9, groups, 9);
	struct ns_mask *mask = calloc(1, sizeof(*mask) + sizeof(uint64_t));

	index_it(subsystem);
	check_windows(subsystem, &port, NS_MASK_HOST_OTHER, false, 512);
	check_windows(subsystem, &port, NS_MASK_HOST_OTHER, true, 512);
	/* Host 1 sees all namespaces except those of group 2 and the first of group 1. */
	CHECK(mask);
	mask->host_count = 2;
	mask->words[0] = 1;
	ana_index_destroy(subsystem->ana);
	for (unsigned i = 0; i < subsystem->ns_count; i++)
		if (subsystem->namespaces[i].ana_group == 2 || i == 0)
			subsystem->namespaces[i].mask = mask;
	index_it(subsystem);
	for (uint32_t host = 0; host < 3; host++) {
		check_windows(subsystem, &port, host, false, 512);
		check_windows(subsystem, &port, host, true, 512);
	}
	EXPECT(ana_index_has(subsystem, 2, 0));
	EXPECT(!ana_index_has(subsystem, 2, 1));
	EXPECT(!ana_index_has(subsystem, 4, 0));
	destroy(subsystem);
	free(mask);
}

static void page_without_namespaces_has_group_1(void)
{
	struct subsystem *subsystem = build(0, NULL, 1);

	index_it(subsystem);
	check_windows(subsystem, &port, 0, false, 64);
	destroy(subsystem);
}

static void window_at_the_end_of_numbers(void)
{
	static const uint32_t groups[] = {1};
	struct subsystem *subsystem = build(1, groups, 1);
	uint8_t part[16];

	index_it(subsystem);
	memset(part, SENTINEL, sizeof(part));
	EXPECT_EQ(16 + 32 + 4, write_ana(subsystem, &port, 0, false,
					 (struct log_window){part, UINT64_MAX - 7, sizeof(part)}));
	for (unsigned i = 0; i < sizeof(part); i++)
		EXPECT_EQ(SENTINEL, part[i]);
	destroy(subsystem);
}

/* 1,000 groups, 10,000 namespaces, every second group not optimized. Hosts that see all, a third,
 * one and none of the namespaces. */
static void large_page_in_every_window(void)
{
	struct ana_group_state *many = calloc(MANY_GROUPS / 2, sizeof(*many));
	struct port at = {.id = 1, .ana = many, .ana_count = MANY_GROUPS / 2};
	struct ns_mask *masks[3];
	uint32_t groups[MANY_NS];
	struct subsystem *subsystem;
	struct prng prng;

	CHECK(many);
	prng_seed(&prng, 4);
	for (unsigned i = 0; i < at.ana_count; i++)
		many[i] = (struct ana_group_state){2 * (i + 1),
						   i % 2 ? ANA_CHANGE : ANA_INACCESSIBLE};
	for (unsigned i = 0; i < MANY_NS; i++)
		groups[i] = i < MANY_GROUPS ? i + 1 : 1 + (uint32_t)prng_below(&prng, MANY_GROUPS);
	subsystem = build(MANY_NS, groups, MANY_NS);
	index_it(subsystem);
	check_windows(subsystem, &at, NS_MASK_HOST_OTHER, false, 64);
	check_windows(subsystem, &at, NS_MASK_HOST_OTHER, true, 64);
	ana_index_destroy(subsystem->ana);
	for (unsigned i = 0; i < 3; i++) {
		masks[i] = calloc(1, sizeof(struct ns_mask) + sizeof(uint64_t));
		CHECK(masks[i]);
		masks[i]->host_count = 3;
		/* Host 0 sees all, host 1 those of the second mask, host 2 of the third. */
		masks[i]->words[0] = i == 0 ? 1 : (i == 1 ? 3 : 5);
	}
	for (unsigned i = 0; i < MANY_NS; i++)
		subsystem->namespaces[i].mask = masks[i == 7777 ? 2 : (i % 3 == 1)];
	index_it(subsystem);
	for (uint32_t host = 0; host < 4; host++)
		check_windows(subsystem, &at, host, host == 0, 16);
	destroy(subsystem);
	for (unsigned i = 0; i < 3; i++)
		free(masks[i]);
	free(many);
}

/* ---- from one snapshot to the next ---------------------------------------------------------- */

struct scene_ns {
	uint32_t nsid;
	uint32_t group;
	const char *only_host; /* NULL: all hosts */
	uint64_t block_count;
};

/* Builds a snapshot without media; fields that the delta and the index read are set by hand. */
static struct snapshot *scene(const struct scene_ns *spaces, unsigned count,
			      const struct ana_group_state *ana, unsigned ana_count)
{
	struct snapshot *snapshot = snapshot_create();
	struct subsystem *subsystem = calloc(1, sizeof(*subsystem));

	CHECK(snapshot && subsystem);
	snapshot->subsystems = calloc(1, sizeof(struct subsystem *));
	snapshot->ports = calloc(1, sizeof(*snapshot->ports));
	snapshot->mask_hosts = calloc(count + 1, NVME_NQN_BYTES);
	snapshot->masks = calloc(count + 1, sizeof(struct ns_mask *));
	snapshot->subsystems[0] = subsystem;
	snapshot->subsystem_count = 1;
	snapshot->port_count = 1;
	text_copy(subsystem->nqn, sizeof(subsystem->nqn), "nqn.2026-11.io.weft:test");
	subsystem->namespaces = ns_array_create(count);
	snapshot->ports[0].id = 1;
	snapshot->ports[0].subsystems = calloc(1, sizeof(struct subsystem *));
	snapshot->ports[0].subsystems[0] = subsystem;
	snapshot->ports[0].subsystem_count = 1;
	snapshot->ports[0].ana = calloc(ana_count + 1, sizeof(*ana));
	if (ana_count > 0)
		memcpy(snapshot->ports[0].ana, ana, ana_count * sizeof(*ana));
	snapshot->ports[0].ana_count = ana_count;
	for (unsigned i = 0; i < count; i++) {
		const char *host = spaces[i].only_host;

		/* Hosts must be given in ascending order. */
		if (host && snapshot_host_index(snapshot, host) == NS_MASK_HOST_OTHER)
			text_copy(snapshot->mask_hosts[snapshot->mask_host_count++], NVME_NQN_BYTES,
				  host);
	}
	for (unsigned i = 0; i < count; i++) {
		struct ns *ns = &subsystem->namespaces[i];

		*ns = (struct ns){.nsid = spaces[i].nsid,
				  .ana_group = spaces[i].group,
				  .block_count = spaces[i].block_count};
		if (spaces[i].only_host) {
			uint32_t host = snapshot_host_index(snapshot, spaces[i].only_host);
			struct ns_mask *mask = calloc(1, sizeof(*mask) + sizeof(uint64_t));

			CHECK(mask && host < 64);
			mask->host_count = snapshot->mask_host_count;
			mask->words[0] = 1ull << host;
			snapshot->masks[snapshot->mask_count++] = mask;
			ns->mask = mask;
		}
		subsystem->ns_count++;
	}
	return snapshot;
}

static void scene_end(struct snapshot *snapshot)
{
	/* There are no stores to release. */
	snapshot->subsystems[0]->ns_count = 0;
	snapshot_destroy(snapshot);
}

static uint64_t group_count_of(const struct snapshot *snapshot, uint32_t group)
{
	const struct subsystem *subsystem = snapshot->subsystems[0];

	return ana_index_change_count(&snapshot->ports[0], group,
				      ana_index_find(subsystem->ana, group)->change_count);
}

static uint64_t header_count_of(const struct snapshot *snapshot)
{
	return snapshot->subsystems[0]->ana_change_count + snapshot->ports[0].ana_change_count;
}

static void counts_rise_when_the_page_changes(void)
{
	static const struct scene_ns a[] = {{1, 1, NULL, 8}, {2, 2, NULL, 8}, {3, 3, NULL, 8}};
	/* Larger: the ANA page is unchanged. */
	static const struct scene_ns b[] = {{1, 1, NULL, 8}, {2, 2, NULL, 9}, {3, 3, NULL, 8}};
	/* A namespace moves from group 2 to 3. */
	static const struct scene_ns c[] = {{1, 1, NULL, 8}, {2, 3, NULL, 9}, {3, 3, NULL, 8}};
	/* The namespace moves back, and group 2 exists again. */
	static const struct ana_group_state two = {2, ANA_INACCESSIBLE};
	struct snapshot *steps[5];
	struct delta *delta;
	uint64_t group_2, group_3;

	steps[0] = scene(a, 3, NULL, 0);
	steps[1] = scene(b, 3, NULL, 0);
	steps[2] = scene(c, 3, NULL, 0);
	steps[3] = scene(b, 3, NULL, 0);
	steps[4] = scene(b, 3, &two, 1);
	EXPECT_EQ(0, delta_prepare(NULL, steps[0], &delta));
	EXPECT(delta == NULL);
	EXPECT_EQ(0, header_count_of(steps[0]));
	EXPECT_EQ(1, group_count_of(steps[0], 2));

	EXPECT_EQ(0, delta_prepare(steps[0], steps[1], &delta));
	EXPECT_EQ(1, delta->subsystems[0].change_count);
	EXPECT_EQ(2, delta->subsystems[0].changes[0].is->nsid);
	EXPECT(delta->subsystems[0].changes[0].has_attributes);
	EXPECT_EQ(0, header_count_of(steps[1]));
	EXPECT_EQ(1, group_count_of(steps[1], 2));
	delta_destroy(delta);

	EXPECT_EQ(0, delta_prepare(steps[1], steps[2], &delta));
	EXPECT(delta->subsystems[0].changes[0].has_group);
	EXPECT_EQ(1, header_count_of(steps[2]));
	EXPECT_EQ(1, group_count_of(steps[2], 1));
	EXPECT(ana_index_find(steps[2]->subsystems[0]->ana, 2) == NULL);
	group_3 = group_count_of(steps[2], 3);
	EXPECT(group_3 > group_count_of(steps[1], 3));
	delta_destroy(delta);

	EXPECT_EQ(0, delta_prepare(steps[2], steps[3], &delta));
	EXPECT_EQ(2, header_count_of(steps[3]));
	EXPECT_EQ(1, group_count_of(steps[3], 1));
	EXPECT(group_count_of(steps[3], 3) > group_3);
	group_2 = group_count_of(steps[3], 2);
	EXPECT(group_2 > group_count_of(steps[1], 2));
	delta_destroy(delta);

	EXPECT_EQ(0, delta_prepare(steps[3], steps[4], &delta));
	EXPECT_EQ(0, delta->subsystems[0].change_count);
	EXPECT_EQ(1, delta->ports[0].group_count);
	EXPECT_EQ(2, delta->ports[0].groups[0]);
	EXPECT_EQ(3, header_count_of(steps[4]));
	EXPECT(group_count_of(steps[4], 2) > group_2);
	EXPECT_EQ(group_count_of(steps[3], 3), group_count_of(steps[4], 3));
	delta_destroy(delta);
	for (unsigned i = 0; i < 5; i++)
		scene_end(steps[i]);
}

static void masks_are_compared_by_who_sees(void)
{
	static const struct scene_ns a[] = {{1, 1, "nqn.b", 8}, {2, 1, NULL, 8}};
	/* The same, with another host elsewhere: the index of "nqn.b" changes. */
	static const struct scene_ns b[] = {
		{1, 1, "nqn.b", 8}, {2, 1, NULL, 8}, {3, 1, "nqn.c", 8}};
	static const struct scene_ns c[] = {
		{1, 1, "nqn.a", 8}, {2, 1, NULL, 8}, {3, 1, "nqn.c", 8}};
	struct snapshot *first = scene(a, 2, NULL, 0), *second = scene(b, 3, NULL, 0);
	struct snapshot *third = scene(c, 3, NULL, 0);
	struct delta *delta;

	EXPECT_EQ(0, delta_prepare(NULL, first, &delta));
	EXPECT_EQ(0, delta_prepare(first, second, &delta));
	EXPECT_EQ(1, delta->subsystems[0].change_count);
	EXPECT(delta->subsystems[0].changes[0].was == NULL);
	EXPECT_EQ(3, delta->subsystems[0].changes[0].is->nsid);
	EXPECT(!delta->has_same_mask_hosts);
	EXPECT_EQ(0, delta_host_index(delta, 0, "nqn.b"));
	EXPECT_EQ(1, delta_host_index(delta, NS_MASK_HOST_OTHER, "nqn.c"));
	EXPECT_EQ(NS_MASK_HOST_OTHER, delta_host_index(delta, NS_MASK_HOST_OTHER, "nqn.d"));
	delta_destroy(delta);
	EXPECT_EQ(0, delta_prepare(second, third, &delta));
	EXPECT_EQ(1, delta->subsystems[0].change_count);
	EXPECT_EQ(1, delta->subsystems[0].changes[0].is->nsid);
	EXPECT(delta->subsystems[0].changes[0].has_visibility);
	EXPECT(!delta->subsystems[0].changes[0].has_attributes);
	EXPECT_EQ(NS_MASK_HOST_OTHER, delta_host_index(delta, 0, "nqn.b"));
	EXPECT_EQ(0, delta_host_index(delta, NS_MASK_HOST_OTHER, "nqn.a"));
	EXPECT_EQ(1, delta_host_index(delta, 1, "nqn.c"));
	delta_destroy(delta);
	scene_end(first);
	scene_end(second);
	scene_end(third);
}

static void a_change_of_one_is_a_delta_of_one(void)
{
	struct scene_ns *spaces = calloc(MANY_NS, sizeof(*spaces));
	struct snapshot *first, *second;
	struct delta *delta;

	CHECK(spaces);
	for (unsigned i = 0; i < MANY_NS; i++)
		spaces[i] = (struct scene_ns){i + 1, 1 + i % MANY_GROUPS, NULL, 8};
	first = scene(spaces, MANY_NS, NULL, 0);
	spaces[4321].block_count = 9;
	second = scene(spaces, MANY_NS, NULL, 0);
	EXPECT_EQ(0, delta_prepare(NULL, first, &delta));
	EXPECT_EQ(0, delta_prepare(first, second, &delta));
	EXPECT_EQ(1, delta->subsystems[0].change_count);
	EXPECT_EQ(4322, delta->subsystems[0].changes[0].was->nsid);
	EXPECT(delta->subsystems[0].is == second->subsystems[0]);
	EXPECT(delta->ports[0].is == &second->ports[0]);
	EXPECT_EQ(0, delta->ports[0].group_count);
	EXPECT(port_offers(&second->ports[0], second->subsystems[0]));
	delta_destroy(delta);
	scene_end(first);
	scene_end(second);
	free(spaces);
}

static void a_thousand_states_are_found(void)
{
	struct ana_group_state *many = calloc(MANY_GROUPS, sizeof(*many));
	struct port at = {.ana = many, .ana_count = MANY_GROUPS};
	unsigned wrong = 0;

	CHECK(many);
	for (unsigned i = 0; i < MANY_GROUPS; i++)
		many[i] = (struct ana_group_state){i + 2, i % 3 ? ANA_NON_OPTIMIZED : ANA_CHANGE};
	for (unsigned i = 0; i < MANY_GROUPS; i++)
		wrong += port_ana_state(&at, i + 2) != many[i].state;
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(ANA_OPTIMIZED, port_ana_state(&at, 1));
	EXPECT_EQ(ANA_OPTIMIZED, port_ana_state(&at, MANY_GROUPS + 2));
	EXPECT(nvme_status_same(NVME_SC_ANA_TRANSITION, port_ana_status(&at, 2)));
	EXPECT(nvme_status_is_ok(port_ana_status(&at, 3)));
	free(many);
}

int main(void)
{
	TAP_RUN(page_lists_groups_in_order);
	TAP_RUN(small_pages_in_every_window);
	TAP_RUN(page_without_namespaces_has_group_1);
	TAP_RUN(window_at_the_end_of_numbers);
	TAP_RUN(large_page_in_every_window);
	TAP_RUN(counts_rise_when_the_page_changes);
	TAP_RUN(masks_are_compared_by_who_sees);
	TAP_RUN(a_change_of_one_is_a_delta_of_one);
	TAP_RUN(a_thousand_states_are_found);
	return tap_end();
}
