/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rechecks and recreates a lost namespace: see daemon/lost_ns.h. The edit only notes in the media
 * registry what the change may do with the file. Opening, creating and keeping the file are parts
 * of the change, and are taken back with it. The end of the change forgets the note, so a refused
 * request has no effect later (media_registry_end_wishes).
 *
 * Control reactor only.
 */
#include "daemon/lost_ns.h"

#include "cluster/peers.h"
#include "config/config_parse.h"

#include <errno.h>
#include <stdlib.h>

/* The namespace's data are served. A recheck or recreation cannot mend what is wrong with it. */
static void has_data_tell(struct media *media, unsigned nsid, struct config_errors *errors)
{
	struct media_error problem;

	if (media && media_problem(media, &problem))
		config_errors_add(errors, "namespace %u is not lost: %s", nsid, problem.text);
	else
		config_errors_add(errors, "namespace %u is not lost: its data are available", nsid);
}

static bool has_path(const struct media *media)
{
	char *path = config_media_path(media->spec);
	bool is_file = path != NULL;

	free(path);
	return is_file;
}

int lost_ns_edit(struct media_registry *registry, json_t *ns, enum lost_ns_action action,
		 bool is_dry_run, struct config_errors *errors)
{
	unsigned nsid = (unsigned)json_integer_value(json_object_get(ns, "nsid"));
	bool is_recreated = action == LOST_NS_RECREATE;
	struct media *media = NULL;
	bool has_failed = false;
	char text[UUID_TEXT_BYTES];
	struct uuid uuid;

	if (uuid_parse(json_string_value(json_object_get(ns, "uuid")), &uuid) == 0)
		media = media_registry_find(registry, &uuid);
	/* Only a lost namespace may be given up. A medium that was cut while it is served may be
	 * rechecked. */
	if (media)
		has_failed = media_is_lost(media) || (!is_recreated && media_is_cut(media));
	if (!is_recreated && media && !has_failed && media_has_lost_writes(media)) {
		if (!is_dry_run)
			media_registry_forgive(registry, &uuid);
		return 0;
	}
	if (!is_recreated && media && !has_failed && media_registry_peers(registry) &&
	    peers_recheck(media_registry_peers(registry), &uuid, is_dry_run))
		has_failed = true;
	if (!has_failed) {
		has_data_tell(media, nsid, errors);
		return -EEXIST;
	}
	if (is_recreated && json_is_true(json_object_get(ns, "clustered"))) {
		config_errors_add(errors,
				  "namespace %u is shared with other members of the cluster, which "
				  "may still have its file open: copy the data that they serve "
				  "(weft copy), stop all members, replace the file yourself, and "
				  "set a new \"uuid\" in the documents of all members",
				  nsid);
		return -EPERM;
	}
	if (is_recreated && !has_path(media)) {
		config_errors_add(errors,
				  "namespace %u (%s) is not a file, and only a file can be created "
				  "anew: recheck the namespace when its medium can be reached, or "
				  "remove it",
				  nsid, media->spec);
		return -EOPNOTSUPP;
	}
	/* An empty file is another namespace: no host may mistake it for the former one. */
	if (is_recreated) {
		uuid_random(&uuid);
		json_object_del(ns, "nguid");
		if (json_object_set_new(ns, "uuid", json_string(uuid_format(&uuid, text))) < 0)
			return -ENOMEM;
	}
	if (!is_dry_run)
		media_registry_retry(registry, &uuid, is_recreated);
	return 0;
}
