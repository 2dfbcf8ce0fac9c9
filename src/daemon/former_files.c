/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of namespaces that were removed before this process started, in a member of a cluster.
 * Opening a file of the document waits for the last operations of a killed process of this member.
 * Files of removed namespaces are not opened, so this file waits for those operations. Otherwise a
 * host that has one of its controllers reset would assume that none of its commands is left, and a
 * late write would overwrite what was written since through another member.
 *
 * Control thread only: waiting blocks, for 10 s in all.
 */
#include "daemon/media_registry_private.h"

#include "base/log.h"
#include "cluster/peers.h"
#include "media/member_lock.h"

#include <errno.h>
#include <stdlib.h>

struct settling {
	struct media_registry *registry;
	unsigned member;
	bool may_wait;
};

static void file_settle(struct settling *settling, const struct uuid *uuid, const char *path)
{
	struct media_registry *registry = settling->registry;
	int fd;

	/* Opening a served file has already waited. A missing file cannot be added again. */
	if (registry_finds_path(registry, path))
		return;
	fd = member_lock_watch_path(path);
	if (fd < 0)
		return;
	if (member_lock_settle(fd, settling->member, settling->may_wait) == -EWOULDBLOCK) {
		settling->may_wait = false;
		log_warn("control",
			 "%s: the namespace of this file was removed, but I/O of this member's "
			 "former process has not ended and may still change the file",
			 path);
	}
	if (registry->peers)
		peers_watch_removed(registry->peers, uuid, fd);
	else
		member_lock_unwatch(fd);
}

static void removed_settle(void *arg, const struct removed_ns *removed)
{
	struct settling *settling = arg;
	struct media_record record;
	char *path;

	if (!media_served_recall(&settling->registry->keeper, &removed->uuid, &record, &path))
		return;
	file_settle(settling, &removed->uuid, path);
	free(path);
}

static void expected_settle(void *arg, const struct media_expected *expected)
{
	struct settling *settling = arg;

	if (expected->is_clustered && !registry_find_live(settling->registry, &expected->uuid))
		file_settle(settling, &expected->uuid, expected->path);
}

void media_registry_settle(struct media_registry *registry, unsigned member)
{
	struct settling settling = {.registry = registry, .member = member, .may_wait = true};

	removed_each(registry->removed, removed_settle, &settling);
	media_records_each(registry->records, expected_settle, &settling);
}
