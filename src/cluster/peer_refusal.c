/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps refusals in the state store: files that were refused because another member had another
 * file under the UUID. A restart must not count as a decision of the operator, and after a power
 * cut the order of starts must not decide between the right file and the wrong one.
 *
 * A refusal is kept under the kind "refused" and the UUID, as a line of text: the file (inode and
 * birth; a block device has no lasting identity), whether a refuser served, and the names of the
 * refusers. A file other than the refused one may be the right file, or a new copy of the wrong
 * one: only the refusers can settle this. Control reactor.
 */
#include "cluster/peers_private.h"

#include "base/log.h"
#include "media/media.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFUSAL_KIND   "refused"
#define REFUSAL_FORMAT "inode=%" PRIu64 " born=%" PRIu64 " served=%u by="
#define REFUSAL_SCAN   "inode=%" SCNu64 " born=%" SCNu64 " served=%u by=%n"
#define REFUSAL_BYTES  (128 + PEERS_MAX * (PEER_NAME_BYTES + 1))

/* Names of members, each followed by a comma. If none of them is a member any more, any other
 * member may decide. */
static uint16_t refusers_of(const struct peers *peers, const char *names)
{
	uint16_t refusers = 0, all = 0;

	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		const char *name = peers->config.peers[i].name;
		size_t len = strlen(name);

		all |= peer_bit(peers, i);
		for (const char *at = names; at; at = strchr(at, ',')) {
			at += *at == ',';
			if (strncmp(at, name, len) == 0 && at[len] == ',')
				refusers |= peer_bit(peers, i);
		}
	}
	return refusers != 0 ? refusers : all;
}

static void names_write(const struct peers *peers, uint16_t refusers, char *text, size_t text_bytes)
{
	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		size_t len = strlen(text);

		if ((refusers & peer_bit(peers, i)) != 0)
			snprintf(text + len, text_bytes - len, "%s,", peers->config.peers[i].name);
	}
}

static void refusal_take(const struct peers *peers, struct peer_file *file, const char *text)
{
	uint64_t inode, born_ns;
	unsigned was_served;
	int names = 0;

	/* An unreadable record counts as a refusal: the operator decides. */
	if (sscanf(text, REFUSAL_SCAN, &inode, &born_ns, &was_served, &names) < 3 || names == 0) {
		file->kept_is_refused = true;
		file->kept_refusers = refusers_of(peers, "");
	} else if (inode == file->inode && born_ns == file->born_ns) {
		file->kept_is_refused = was_served != 0;
		file->kept_refusers = refusers_of(peers, text + names);
	} else {
		file->doubters = refusers_of(peers, text + names);
	}
	file->refusers |= file->kept_refusers;
	file->is_refused |= file->kept_is_refused;
}

void peer_refusal_recall(struct peers *peers, struct peer_file *file, const struct media *media)
{
	const struct keeper *keeper = &peers->keeper;
	char key[UUID_TEXT_BYTES], text[REFUSAL_BYTES];
	struct media_record record = {0};
	void *value = NULL;
	size_t bytes = 0;
	int res;

	if (media_get_record(media, &record) && !record.is_block_device) {
		file->inode = record.inode;
		file->born_ns = record.born_ns;
	}
	file->has_kept = file->kept_is_refused = false;
	file->kept_refusers = file->doubters = 0;
	if (!keeper->recall)
		return;
	res = keeper->recall(keeper->arg, REFUSAL_KIND, uuid_format(&file->uuid, key), &value,
			     &bytes);
	if (res == -ENOENT)
		return;
	if (res < 0)
		log_error("control", "%s: cannot read whether the file was refused: %s", key,
			  strerror(-res));
	file->has_kept = true;
	snprintf(text, sizeof(text), "%.*s", res < 0 ? 0 : (int)bytes,
		 res < 0 ? "" : (const char *)value);
	free(value);
	refusal_take(peers, file, text);
}

void peer_refusal_keep(struct peers *peers, struct peer_file *file)
{
	const struct keeper *keeper = &peers->keeper;
	bool is_over = file->refusers == 0;
	char key[UUID_TEXT_BYTES], text[REFUSAL_BYTES];
	int res;

	if (!keeper->keep ||
	    (is_over ? !file->has_kept || (file->kept_refusers == 0 && !file->is_served)
		     : file->kept_refusers == file->refusers &&
			       file->kept_is_refused == file->is_refused))
		return;
	snprintf(text, sizeof(text), REFUSAL_FORMAT, file->inode, file->born_ns, file->is_refused);
	names_write(peers, file->refusers, text, sizeof(text));
	uuid_format(&file->uuid, key);
	res = keeper->keep(keeper->arg, REFUSAL_KIND, key, is_over ? NULL : text,
			   is_over ? 0 : strlen(text));
	if (res < 0) {
		log_limited(LOG_LEVEL_ERROR, "control",
			    "%s: cannot save that the file %s: %s; the next comparison tries again",
			    key, is_over ? "is the right one" : "was refused", strerror(-res));
		return;
	}
	file->has_kept = !is_over;
	file->kept_refusers = file->refusers;
	file->kept_is_refused = file->is_refused;
}
