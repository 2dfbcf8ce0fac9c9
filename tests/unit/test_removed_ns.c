/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of removed namespaces that may come back: how many entries there are and how old they
 * become, what a later process reads of the list, and which file each entry has.
 */
#include "daemon/removed_ns.h"
#include "ns/ns_live.h"

#include "tap.h"

#include <errno.h>
#include <stdlib.h>

static char *removed_text;
static unsigned removed_forgotten;

static int removed_store(void *arg, const char *kind, const char *key, const void *value,
			 size_t bytes)
{
	if (strcmp(kind, "removed") != 0) {
		removed_forgotten += value == NULL;
		return 0;
	}
	free(removed_text);
	removed_text = value ? strndup(value, bytes) : NULL;
	return 0;
}

static int removed_load(void *arg, const char *kind, const char *key, void **ret_value,
			size_t *ret_bytes)
{
	*ret_value = removed_text ? strdup(removed_text) : NULL;
	*ret_bytes = removed_text ? strlen(removed_text) : 0;
	return removed_text ? 0 : -ENOENT;
}

static void removed_count(void *arg, const struct removed_ns *removed)
{
	++*(unsigned *)arg;
}

static unsigned removed_known(const struct removed_list *list)
{
	unsigned count = 0;

	removed_each(list, removed_count, &count);
	return count;
}

#define REMOVED_AT 1800000000u

/* arg: UUID of the namespace in use. */
static bool removed_in_use(void *arg, const struct uuid *uuid)
{
	return arg && uuid_equal(arg, uuid);
}

static void removed_age_keep(struct removed_list *list, const struct keeper *keeper, uint64_t now_s,
			     struct uuid *in_use)
{
	removed_commit(list);
	removed_age(list, now_s, true);
	removed_expire(list, keeper, removed_in_use, in_use);
	removed_keep(list, keeper);
}

static void removed_many(struct removed_list *list, unsigned kept, struct removed_ns *about,
			 char path[32])
{
	for (unsigned i = 0; i < REMOVED_NS_MAX + 2; i++) {
		snprintf(path, 32, "/a b/%u", i);
		memcpy(about->uuid.bytes, &i, sizeof(i));
		about->uuid.bytes[15] = (uint8_t)kept;
		about->since_s = REMOVED_AT;
		about->looked_s = i;
		about->kept = kept;
		about->record.inode = 10 + i + kept * 10000;
		removed_add(list, about, path);
	}
}

static void removed_namespaces_are_bounded(void)
{
	const struct keeper keeper = {.keep = removed_store, .recall = removed_load};
	struct removed_ns about = {.record = {.has_type = true, .born_ns = 5}};
	struct removed_list *list;
	struct uuid uuid;
	char path[32];

	removed_forgotten = 0;
	EXPECT_EQ(0, removed_list_create(0, &list));
	removed_many(list, NS_LIVE_HAS_RESERVATION, &about, path);
	uuid = about.uuid;
	removed_many(list, 0, &about, path);
	removed_age_keep(list, &keeper, 5000, NULL);
	EXPECT_EQ(2 * REMOVED_NS_MAX, removed_known(list));
	EXPECT_EQ(2 * 3, removed_forgotten); /* three kinds, of the two oldest with any */
	removed_list_destroy(list);

	EXPECT_EQ(0, removed_list_create(0, &list));
	EXPECT_EQ(0, removed_list_recall(list, &keeper));
	EXPECT_EQ(2 * REMOVED_NS_MAX, removed_known(list));
	EXPECT_EQ(NS_LIVE_HAS_RESERVATION, removed_find(list, &uuid)->kept);
	EXPECT_EQ(0, removed_drop(list, &uuid, "a test", &keeper));
	EXPECT_EQ(-ENOENT, removed_drop(list, &uuid, "a test", &keeper));
	/* The second process counts from 0 again; the ages of the first are kept. */
	removed_age_keep(list, &keeper, REMOVED_NS_DAYS * 86400u - 5000 + 10, NULL);
	EXPECT_EQ(2 * (REMOVED_NS_MAX - 8) - 1, removed_known(list)); /* 2 to 9 are too old */
	uuid = about.uuid;
	removed_age_keep(list, &keeper, UINT64_MAX / 2, &uuid);
	EXPECT_EQ(1, removed_known(list)); /* an entry in use never ages */
	EXPECT(removed_find(list, &uuid));
	removed_age_keep(list, &keeper, UINT64_MAX / 2, NULL);
	EXPECT_EQ(0, removed_known(list));
	EXPECT(!removed_text);
	removed_list_destroy(list);
}

/* Only the time that a target ran counts, whatever the wall clock shows and since_s has. */
static void removed_namespaces_age_while_a_target_runs(void)
{
	const struct keeper keeper = {.keep = removed_store, .recall = removed_load};
	struct removed_ns about = {.uuid = {{1}}, .looked_s = 70, .record = {.has_type = true}};
	const uint64_t max_s = (uint64_t)REMOVED_NS_DAYS * 86400u;
	struct removed_list *list;

	EXPECT_EQ(0, removed_list_create(20, &list));
	removed_add(list, &about, "/a");
	removed_age_keep(list, &keeper, 70 + max_s, NULL);
	EXPECT_EQ(max_s, removed_find(list, &about.uuid)->age_s);
	removed_list_destroy(list);
	/* The machine was started again, so the clock is behind; a look at that time adds 0. */
	EXPECT_EQ(0, removed_list_create(5, &list));
	EXPECT_EQ(0, removed_list_recall(list, &keeper));
	removed_age_keep(list, &keeper, 5, NULL);
	EXPECT(removed_find(list, &about.uuid));
	removed_age_keep(list, &keeper, 6, NULL);
	EXPECT(!removed_find(list, &about.uuid));
	removed_list_destroy(list);
	EXPECT(!removed_text);
}

/* A running target saves ages once a day, and a line of an earlier version has the age 0. */
static void removed_ages_are_saved_daily(void)
{
	const struct keeper keeper = {.keep = removed_store, .recall = removed_load};
	const struct uuid uuid = {{1}};
	struct removed_list *list;

	removed_text = strdup("01000000-0000-0000-0000-000000000000 10 kept=0 size=1 block=512 "
			      "device=0 inode=7 born=8 id=- /a b\n");
	EXPECT_EQ(0, removed_list_create(100, &list));
	EXPECT_EQ(0, removed_list_recall(list, &keeper));
	EXPECT_EQ(0, removed_find(list, &uuid)->age_s);
	EXPECT(strcmp(removed_find(list, &uuid)->path, "/a b") == 0);
	removed_age(list, 100 + 86399, false);
	removed_keep(list, &keeper);
	EXPECT(!strstr(removed_text, "age="));
	removed_age(list, 100 + 86400, false);
	removed_keep(list, &keeper);
	EXPECT(strstr(removed_text, "age=86400 /a b\n"));
	removed_list_destroy(list);
	free(removed_text);
	removed_text = NULL;
}

/* A change that could not be saved has no effect on the list. */
static void removed_namespaces_of_an_undone_change_leave_no_trace(void)
{
	const struct keeper keeper = {.keep = removed_store, .recall = removed_load};
	struct removed_ns about = {.record = {.has_type = true, .born_ns = 5}};
	struct removed_ns again = {.since_s = 7, .kept = NS_LIVE_HAS_RESERVATION};
	struct removed_list *list;
	char path[32], *before;

	removed_forgotten = 0;
	EXPECT_EQ(0, removed_list_create(0, &list));
	removed_many(list, NS_LIVE_HAS_RESERVATION, &about, path);
	removed_many(list, 0, &about, path);
	removed_age_keep(list, &keeper, 5000, NULL);
	EXPECT_EQ(2 * 3, removed_forgotten);
	before = strdup(removed_text);
	/* A namespace of the list leaves once more: a lost one. */
	again.uuid = about.uuid;
	removed_add(list, &again, "/again");
	EXPECT_EQ(7, removed_find(list, &again.uuid)->since_s);
	EXPECT_EQ(2 * REMOVED_NS_MAX, removed_known(list));
	for (unsigned kind = 0; kind < 2; kind++) {
		for (unsigned i = 0; i < REMOVED_NS_MAX + 100; i++) {
			again.uuid = (struct uuid){{[14] = (uint8_t)(1 + kind)}};
			memcpy(again.uuid.bytes, &i, sizeof(i));
			again.kept = kind ? NS_LIVE_HAS_RESERVATION : 0;
			removed_add(list, &again, "/new");
		}
	}
	removed_expire(list, &keeper, removed_in_use, NULL);
	removed_keep(list, &keeper);
	EXPECT_EQ(2 * 3, removed_forgotten);
	EXPECT(strcmp(before, removed_text) != 0);
	removed_rollback(list);
	removed_keep(list, &keeper);
	EXPECT(strcmp(before, removed_text) == 0);
	EXPECT_EQ(2 * REMOVED_NS_MAX, removed_known(list));
	/* Dropped while the change is under way: not brought back. */
	again.uuid = about.uuid;
	removed_add(list, &again, "/again");
	EXPECT_EQ(0, removed_drop(list, &again.uuid, "a test", &keeper));
	removed_rollback(list);
	EXPECT(!removed_find(list, &again.uuid));
	removed_list_destroy(list);
	free(before);
	free(removed_text);
	removed_text = NULL;
}

static int removed_ask(const struct removed_list *list, const struct removed_ns *about,
		       const char *path, const struct media_record *now)
{
	struct media_error error = {""};
	int res = removed_check(list, &about->uuid, path, now, &error);

	EXPECT_EQ(res < 0, strstr(error.text, "weft ctl removed drop") != NULL);
	return res;
}

static void removed_namespaces_have_one_file(void)
{
	const struct keeper keeper = {.keep = removed_store, .recall = removed_load};
	struct removed_ns file = {.uuid = {{1}},
				  .since_s = 1000,
				  .kept = NS_LIVE_HAS_BAD_BLOCKS,
				  .record = {.has_type = true, .inode = 7, .born_ns = 70}};
	struct removed_ns disk = {.uuid = {{2}},
				  .since_s = 1000,
				  .record = {.has_type = true, .is_block_device = true}};
	struct media_record now = file.record, disk_now = disk.record;
	struct removed_list *list;

	snprintf(disk.record.device_id, sizeof(disk.record.device_id), "wwid:1");
	EXPECT_EQ(0, removed_list_create(0, &list));
	removed_add(list, &file, "/a");
	removed_add(list, &disk, "/dev/sda");
	removed_keep(list, &keeper);
	removed_list_destroy(list);
	EXPECT_EQ(0, removed_list_create(0, &list));
	EXPECT_EQ(0, removed_list_recall(list, &keeper));

	EXPECT_EQ(0, removed_ask(list, &file, "/a", &now));
	EXPECT_EQ(0, removed_ask(list, &file, "/renamed", &now));
	EXPECT_EQ(-EUCLEAN, removed_ask(list, &file, "/nowhere/at/all", NULL));
	EXPECT_EQ(-EUCLEAN, removed_ask(list, &file, NULL, NULL)); /* memory */
	now.born_ns++; /* the inode belongs to a newer file */
	EXPECT_EQ(-EUCLEAN, removed_ask(list, &file, "/a", &now));
	now.inode = 0; /* no inode numbers: the name decides */
	EXPECT_EQ(0, removed_ask(list, &file, "/a", &now));
	EXPECT_EQ(-EUCLEAN, removed_ask(list, &file, "/b", &now));
	EXPECT_EQ(-EUCLEAN, removed_ask(list, &disk, "/dev/sda", &file.record));
	EXPECT_EQ(0, removed_ask(list, &disk, "/dev/sda", &disk_now)); /* cannot be identified */
	EXPECT_EQ(0, removed_ask(list, &disk, "/dev/sdb", &disk.record));
	snprintf(disk_now.device_id, sizeof(disk_now.device_id), "wwid:2");
	EXPECT_EQ(-EUCLEAN, removed_ask(list, &disk, "/dev/sda", &disk_now));

	/* Another file of the same name keeps the entry; the file itself drops it. */
	now = file.record;
	now.inode++;
	EXPECT(!removed_find_kept_in(list, "/a", &now, &disk.uuid));
	removed_drop_file(list, "/a", &now, &disk.uuid, &keeper);
	EXPECT(removed_find(list, &file.uuid));
	EXPECT(!removed_find_kept_in(list, "/b", &file.record, &file.uuid));
	EXPECT(removed_find_kept_in(list, "/b", &file.record, &disk.uuid));
	removed_drop_file(list, "/b", &file.record, &disk.uuid, &keeper);
	EXPECT(!removed_find(list, &file.uuid));
	EXPECT(removed_find(list, &disk.uuid));
	removed_list_destroy(list);
	free(removed_text);
	removed_text = NULL;
}

int main(void)
{
	TAP_RUN(removed_namespaces_are_bounded);
	TAP_RUN(removed_namespaces_age_while_a_target_runs);
	TAP_RUN(removed_ages_are_saved_daily);
	TAP_RUN(removed_namespaces_of_an_undone_change_leave_no_trace);
	TAP_RUN(removed_namespaces_have_one_file);
	return tap_end();
}
