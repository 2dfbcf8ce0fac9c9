/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicts the effects of a change beside the document: see daemon/foresee.h.
 *
 * Control thread only; looking at files may block.
 */
#include "daemon/foresee.h"

#include "config/config_parse.h"
#include "daemon/served_files.h"
#include "ns/ns_live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct foresee {
	const struct media_registry *registry;
	const struct config *from, *to;
	FILE *out;
	struct config_errors *errors;
};

/* Returns for example "its reservation and its bad blocks"; NULL: nothing is kept. */
static const char *kept_words(unsigned kept)
{
	static const char *const words[] = {
		[NS_LIVE_HAS_RESERVATION] = "its reservation",
		[NS_LIVE_HAS_BAD_BLOCKS] = "its bad blocks",
		[NS_LIVE_HAS_RESERVATION | NS_LIVE_HAS_BAD_BLOCKS] =
			"its reservation and its bad blocks",
	};

	return words[kept & (NS_LIVE_HAS_RESERVATION | NS_LIVE_HAS_BAD_BLOCKS)];
}

/* ---- added namespaces ---------------------------------------------------------------------------
 */

/* Reports that the file belonged to a removed namespace, which could have come back. */
static void former_owner_look(const struct foresee *foresee, const char *nqn,
			      const struct config_ns *ns, const char *path)
{
	const struct removed_ns *former;
	struct media_record record;
	char text[UUID_TEXT_BYTES];

	/* A dry run asks the file system only if a removed namespace has kept state. */
	if (!path || removed_kept_count(foresee->registry->removed) == 0 ||
	    media_path_record(path, &record) < 0)
		return;
	former = removed_find_kept_in(foresee->registry->removed, path, &record, &ns->uuid);
	if (former)
		fprintf(foresee->out,
			"~ namespace %s/%u: uses the file of the removed namespace %s; the kept "
			"state of that namespace, %s, is dropped\n",
			nqn, ns->nsid, uuid_format(&former->uuid, text), kept_words(former->kept));
}

static int coming_look(const struct foresee *foresee, const char *nqn, const struct config_ns *ns)
{
	const struct media_registry *registry = foresee->registry;
	const struct removed_ns *removed = removed_find(registry->removed, &ns->uuid);
	bool is_there = registry_find_live(registry, &ns->uuid) != NULL;
	struct media_error error;
	char *path;
	int res = 0;

	if (served_file_has_spec(registry, &ns->uuid, ns->media))
		return 0;
	path = config_media_path(ns->media);
	if (!is_there || !served_file_is_at(registry, &ns->uuid, path))
		res = served_file_check(registry, &ns->uuid, path, NULL, &error);
	if (res < 0)
		config_errors_add(foresee->errors, "%s, namespace %u (%s): %s", nqn, ns->nsid,
				  ns->media, error.text);
	else if (!is_there && removed && removed->kept)
		fprintf(foresee->out, "~ namespace %s/%u: %s come%s back with the namespace\n", nqn,
			ns->nsid, kept_words(removed->kept),
			removed->kept == NS_LIVE_HAS_RESERVATION ? "s" : "");
	if (res == 0 && !is_there)
		former_owner_look(foresee, nqn, ns, path);
	free(path);
	return res;
}

static int coming_tell(const struct foresee *foresee)
{
	int first_failure = 0;

	for (unsigned s = 0; s < foresee->to->subsystem_count; s++) {
		const struct config_subsystem *subsystem = &foresee->to->subsystems[s];

		for (unsigned n = 0; n < subsystem->ns_count; n++) {
			int res = coming_look(foresee, subsystem->nqn, &subsystem->namespaces[n]);

			first_failure = first_failure ? first_failure : res;
		}
	}
	return first_failure;
}

/* ---- removed namespaces -------------------------------------------------------------------------
 */

static const struct config_ns *ns_by_uuid(const struct config *config, const struct uuid *uuid,
					  const char **ret_nqn)
{
	for (unsigned s = 0; s < config->subsystem_count; s++) {
		const struct config_subsystem *subsystem = &config->subsystems[s];

		for (unsigned n = 0; n < subsystem->ns_count; n++) {
			*ret_nqn = subsystem->nqn;
			if (uuid_equal(&subsystem->namespaces[n].uuid, uuid))
				return &subsystem->namespaces[n];
		}
	}
	return NULL;
}

static bool has_path(const struct config *config, const char *wanted)
{
	bool is_found = false;

	for (unsigned s = 0; s < config->subsystem_count; s++) {
		const struct config_subsystem *subsystem = &config->subsystems[s];

		for (unsigned n = 0; n < subsystem->ns_count && !is_found; n++) {
			char *path = config_media_path(subsystem->namespaces[n].media);

			is_found = path && strcmp(path, wanted) == 0;
			free(path);
		}
	}
	return is_found;
}

static void going_look(const struct foresee *foresee, const struct live_entry *entry)
{
	unsigned kept = ns_live_kept(entry->live);
	const char *nqn, *words = kept_words(kept);
	const struct config_ns *ns;
	char *path;

	if (kept == 0 || ns_by_uuid(foresee->to, &entry->uuid, &nqn))
		return;
	ns = ns_by_uuid(foresee->from, &entry->uuid, &nqn);
	if (!ns)
		return;
	path = config_media_path(ns->media);
	if (words && path && !has_path(foresee->to, path))
		fprintf(foresee->out,
			"~ namespace %s/%u: %s %s kept as long as its file (weft ctl removed)\n",
			nqn, ns->nsid, words, (kept & NS_LIVE_HAS_BAD_BLOCKS) ? "are" : "is");
	else if (words)
		fprintf(foresee->out, "~ namespace %s/%u: %s %s dropped\n", nqn, ns->nsid, words,
			(kept & NS_LIVE_HAS_BAD_BLOCKS) ? "are" : "is");
	if (kept & NS_LIVE_HAS_VOLATILE)
		fprintf(foresee->out,
			"~ namespace %s/%u: its reservation is dropped (made without PTPL)\n", nqn,
			ns->nsid);
	free(path);
}

int foresee_change(const struct media_registry *registry, const struct config *from,
		   const struct config *to, char **diff, struct config_errors *errors)
{
	struct foresee foresee = {.registry = registry, .from = from, .to = to, .errors = errors};
	char *text = NULL;
	size_t bytes = 0;
	int res;

	foresee.out = open_memstream(&text, &bytes);
	if (!foresee.out)
		return -ENOMEM;
	fputs(*diff, foresee.out);
	list_for_each(node, &registry->lives)
		going_look(&foresee, list_entry(node, struct live_entry, entry.node));
	res = coming_tell(&foresee);
	if (fclose(foresee.out) != 0 && res == 0)
		res = -ENOMEM;
	if (res < 0) {
		free(text);
		return res;
	}
	free(*diff);
	*diff = text;
	return 0;
}
