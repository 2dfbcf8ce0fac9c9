/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are created or grown are stable before their configuration is in force, with as few
 * waits for the drive as possible: media/file_sync.c, daemon/media_registry_open.c. The blocking
 * calls are replaced here: counted, recorded with their file, and made to fail.
 */
#include "config/config.h"
#include "daemon/media_registry.h"
#include "daemon/snapshot_build.h"
#include "media/media.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 64

static char folder[64];
static struct media *media[FILES_MAX];
static unsigned media_count;

static char synced[FILES_MAX * 2][PATH_MAX]; /* paths given to fsync, in order */
static unsigned synced_count, syncfs_count;
static int fail_with; /* errno of the next call; 0: success */

static int failed(void)
{
	errno = fail_with;
	fail_with = 0;
	return -1;
}

int fsync(int fd)
{
	char link[64];
	ssize_t len;

	if (fail_with != 0)
		return failed();
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	CHECK(synced_count < ARRAY_LEN(synced));
	len = readlink(link, synced[synced_count], PATH_MAX - 1);
	CHECK(len > 0);
	synced[synced_count++][len] = '\0';
	return 0;
}

int syncfs(int fd)
{
	if (fail_with != 0)
		return failed();
	syncfs_count++;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

static void begin(void)
{
	snprintf(folder, sizeof(folder), "/tmp/weft-sync-XXXXXX");
	CHECK(mkdtemp(folder) != NULL);
	media_count = synced_count = syncfs_count = 0;
	fail_with = 0;
}

static void end(void)
{
	for (unsigned i = 0; i < media_count; i++)
		media_close(media[i]);
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *path_of(unsigned i)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%u", folder, i);
	return path;
}

static void open_one(const char *before, unsigned i, const char *options)
{
	struct media_error error;
	char spec[256];

	snprintf(spec, sizeof(spec), "%sfile:%s%s", before, path_of(i), options);
	EXPECT_EQ(0, media_open(spec, &media[media_count], &error));
	media_count++;
}

static int sync_all(struct media_error *ret_error)
{
	return media_sync(media, media_count, ret_error);
}

static void a_few_are_synced_one_by_one(void)
{
	struct media_error error;

	begin();
	open_one("", 0, ",size=1M");
	open_one("fault:fail:op=flush@", 1, ",size=1M");
	EXPECT_EQ(0, synced_count);
	EXPECT_EQ(0, sync_all(&error));
	EXPECT_EQ(0, syncfs_count);
	EXPECT_EQ(4, synced_count);
	/* The file first, then its folder: no name may be stable before its file. */
	for (unsigned i = 0; i < 2; i++) {
		EXPECT_STR(path_of(i), synced[2 * i]);
		EXPECT_STR(folder, synced[2 * i + 1]);
	}
	EXPECT_EQ(0, sync_all(&error));
	EXPECT_EQ(4, synced_count);
	end();
}

static void many_are_synced_by_one_call(void)
{
	struct media_error error;

	begin();
	for (unsigned i = 0; i < 40; i++)
		open_one("", i, ",size=1M");
	EXPECT_EQ(0, sync_all(&error));
	EXPECT_EQ(1, syncfs_count);
	EXPECT_EQ(0, synced_count);
	EXPECT_EQ(0, sync_all(&error));
	EXPECT_EQ(1, syncfs_count);
	end();
}

static void only_what_changed_is_synced(void)
{
	struct media_error error;

	begin();
	for (unsigned i = 0; i < 2; i++) {
		int fd = open(path_of(i), O_RDWR | O_CREAT, 0600);

		CHECK(fd >= 0 && ftruncate(fd, 1 << 20) == 0);
		close(fd);
	}
	open_one("", 0, "");
	open_one("", 1, ",size=2M");
	EXPECT_EQ(0, media_open("mem:1M", &media[media_count++], &error));
	EXPECT_EQ(0, sync_all(&error));
	EXPECT_EQ(1, synced_count);
	EXPECT_STR(path_of(1), synced[0]);

	/* Grow it again, beside the medium in use. */
	char spec[256];

	snprintf(spec, sizeof(spec), "file:%s,size=3M", path_of(1));
	EXPECT_EQ(0, media_reopen(media[1], spec, &media[media_count++], &error));
	EXPECT_EQ(0, sync_all(&error));
	EXPECT_EQ(2, synced_count);
	EXPECT_STR(path_of(1), synced[1]);
	end();
}

static void a_sync_that_fails_is_told_and_tried_again(void)
{
	struct media_error error;

	begin();
	open_one("", 0, ",size=1M");
	fail_with = EIO;
	EXPECT_EQ(-EIO, sync_all(&error));
	EXPECT(strstr(error.text, path_of(0)) != NULL);
	EXPECT_EQ(0, sync_all(&error));
	EXPECT_EQ(2, synced_count);
	for (unsigned i = 1; i < 40; i++)
		open_one("", i, ",size=1M");
	fail_with = ENOSPC;
	EXPECT_EQ(-ENOSPC, sync_all(&error));
	EXPECT(strstr(error.text, path_of(1)) != NULL);
	EXPECT_EQ(0, sync_all(&error));
	EXPECT_EQ(1, syncfs_count);
	end();
}

/* A failing sync of a growth takes the report of lost writes from hosts' flushes. */
static void a_sync_that_fails_tells_of_lost_writes(void)
{
	struct media_error error;
	char spec[256];

	begin();
	open_one("", 0, ",size=1M");
	fail_with = EIO;
	EXPECT_EQ(-EIO, sync_all(&error));
	EXPECT(!media_has_lost_writes(media[0])); /* a new file has no writes of hosts */
	EXPECT_EQ(0, sync_all(&error));
	snprintf(spec, sizeof(spec), "file:%s,size=2M", path_of(0));
	EXPECT_EQ(0, media_reopen(media[0], spec, &media[1], &error));
	media_count = 2;
	fail_with = EIO;
	EXPECT_EQ(-EIO, sync_all(&error));
	EXPECT(media_has_lost_writes(media[0]) && media_has_lost_writes(media[1]));
	media_forgive(media[0]);
	fail_with = EIO;
	media_undo(media[1]);
	EXPECT(media_has_lost_writes(media[0]));
	end();
}

/* Builds one namespace on file 0. NULL on failure. */
static struct snapshot *build_sized(struct media_registry *registry, const char *size,
				    struct config_errors *errors)
{
	struct snapshot *snapshot = NULL;
	struct config *config = NULL;
	char text[512];

	snprintf(text, sizeof(text),
		 "{\"version\":1,\"subsystems\":[{\"nqn\":\"nqn.2026-11.io.weft:s\","
		 "\"namespaces\":[{\"uuid\":\"11111111-2222-4333-8444-555555555555\","
		 "\"media\":\"file:%s,size=%s\"}]}]}",
		 path_of(0), size);
	memset(errors, 0, sizeof(*errors));
	config_load_text(text, strlen(text), &config, errors);
	CHECK(config && config_identify(config, NULL, errors) == 0);
	snapshot_from_config(config, registry, 1, &snapshot, errors);
	config_free(config);
	return snapshot;
}

static struct snapshot *build(struct media_registry *registry, struct config_errors *errors)
{
	return build_sized(registry, "1M", errors);
}

static unsigned marks_kept;

static int keep(void *arg, const char *kind, const char *key, const void *value, size_t value_bytes)
{
	marks_kept += strcmp(kind, "loss") == 0 && value != NULL;
	return 0;
}

/* The change whose sync found lost writes fails. Hosts' next flushes fail too, also in a later
 * process. */
static void a_growth_that_fails_draws_a_mark(void)
{
	struct keeper keeper = {.keep = keep};
	struct media_registry *registry;
	struct config_errors errors;
	struct snapshot *snapshot;

	begin();
	marks_kept = 0;
	EXPECT_EQ(0, media_registry_create(1, &registry));
	media_registry_set_keeper(registry, &keeper);
	snapshot = build(registry, &errors);
	CHECK(snapshot != NULL);
	media_registry_commit(registry);
	EXPECT_EQ(0, marks_kept);
	fail_with = EIO;
	EXPECT(!build_sized(registry, "2M", &errors));
	EXPECT(errors.count == 1 && strstr(errors.texts[0], "cannot sync") != NULL);
	EXPECT_EQ(1, marks_kept);
	EXPECT(media_has_lost_writes(snapshot->subsystems[0]->namespaces[0].media));
	snapshot_destroy(snapshot);
	snapshot = build_sized(registry, "2M", &errors);
	EXPECT(snapshot != NULL);
	media_registry_commit(registry);
	EXPECT_EQ(1, marks_kept);
	if (snapshot)
		snapshot_destroy(snapshot);
	media_registry_destroy(registry);
	end();
}

static void no_configuration_is_in_force_without_it(void)
{
	struct media_registry *registry;
	struct config_errors errors;
	struct snapshot *snapshot;

	begin();
	EXPECT_EQ(0, media_registry_create(1, &registry));
	fail_with = EIO;
	EXPECT(!build(registry, &errors));
	EXPECT(errors.count == 1 && strstr(errors.texts[0], "cannot sync") != NULL);
	EXPECT(access(path_of(0), F_OK) < 0 && errno == ENOENT);
	EXPECT_EQ(0, media_registry_count(registry));

	snapshot = build(registry, &errors);
	EXPECT(snapshot != NULL);
	EXPECT_EQ(2, synced_count);
	media_registry_commit(registry);
	if (snapshot)
		snapshot_destroy(snapshot);
	snapshot = build(registry, &errors);
	EXPECT(snapshot != NULL);
	EXPECT_EQ(2, synced_count);
	media_registry_commit(registry);
	if (snapshot)
		snapshot_destroy(snapshot);
	media_registry_destroy(registry);
	end();
}

int main(void)
{
	TAP_RUN(a_few_are_synced_one_by_one);
	TAP_RUN(many_are_synced_by_one_call);
	TAP_RUN(only_what_changed_is_synced);
	TAP_RUN(a_sync_that_fails_is_told_and_tried_again);
	TAP_RUN(a_sync_that_fails_tells_of_lost_writes);
	TAP_RUN(a_growth_that_fails_draws_a_mark);
	TAP_RUN(no_configuration_is_in_force_without_it);
	return tap_end();
}
