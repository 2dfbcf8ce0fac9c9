/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks of lost writes (target/loss.h) between members under one kernel. The kernel reports a
 * failed write of its page cache only to descriptors that were open at that time. A member that
 * opens the file later hears of the loss from a member that had it open
 * (docs/adr/0036-lost-writes-fail-the-flush.md).
 *
 * Each member sends, with its list of namespaces, the last mark drawn for a failure of its own,
 * from its store after a restart. A member that does not know this mark draws one of its own. That
 * mark is not sent on: every member is linked with every other one. The member first keeps its own
 * mark, then the fact that the received mark is known (by UUID, kind "loss-heard"): when killed in
 * between, it draws again.
 *
 * A member that cannot be asked may have heard of a loss and been killed before it could send a
 * mark. So the members that have run under this kernel without an orderly end are kept under kind
 * "loss-near" and the member's name, with the kernel's boot ID as value. Control reactor.
 */
#include "cluster/peers_private.h"

#include "base/log.h"
#include "media/media.h"
#include "ns/ns_live.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR_KIND   "loss-near"
#define HEARD_KIND  "loss-heard"
#define HEARD_BYTES (PEERS_MAX * (PEER_NAME_BYTES + 18))

/* ---- what the store keeps: NAME=MARK for each member ------------------------------------------
 */

/* Entries of former members are dropped when the next mark is kept. */
static void heard_take(const struct peers *peers, struct peer_file *file, const char *text)
{
	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		const char *name = peers->config.peers[i].name;
		size_t len = strlen(name);

		for (const char *at = text; at; at = strchr(at, ',')) {
			at += *at == ',';
			if (strncmp(at, name, len) == 0 && at[len] == '=')
				file->heard[i] = strtoull(at + len + 1, NULL, 16);
		}
	}
}

/* A value that cannot be read counts as unknown: marks are drawn again. */
static void heard_recall(const struct peers *peers, struct peer_file *file)
{
	const struct keeper *keeper = &peers->keeper;
	char key[UUID_TEXT_BYTES], text[HEARD_BYTES];
	void *value = NULL;
	size_t bytes = 0;
	int res;

	file->has_heard = true;
	if (!keeper->recall)
		return;
	res = keeper->recall(keeper->arg, HEARD_KIND, uuid_format(&file->uuid, key), &value,
			     &bytes);
	if (res == 0) {
		snprintf(text, sizeof(text), "%.*s", (int)bytes, (const char *)value);
		heard_take(peers, file, text);
	} else if (res != -ENOENT) {
		log_error("control",
			  "%s: cannot read which lost writes other members have reported: %s", key,
			  strerror(-res));
	}
	free(value);
}

static void heard_keep(const struct peers *peers, const struct peer_file *file)
{
	const struct keeper *keeper = &peers->keeper;
	char key[UUID_TEXT_BYTES], text[HEARD_BYTES] = "";
	int res;

	if (!keeper->keep)
		return;
	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		size_t len = strlen(text);

		if (file->heard[i] != 0)
			snprintf(text + len, sizeof(text) - len, "%s=%" PRIx64 ",",
				 peers->config.peers[i].name, file->heard[i]);
	}
	uuid_format(&file->uuid, key);
	res = keeper->keep(keeper->arg, HEARD_KIND, key, text, strlen(text));
	if (res < 0)
		log_limited(LOG_LEVEL_ERROR, "control",
			    "%s: cannot save that hosts were notified of lost writes: %s; after a "
			    "restart they are notified again",
			    key, strerror(-res));
}

/* ---- marks of peers -------------------------------------------------------------------------- */

/* A peer's last list counts even when its link is down, because the loss has happened. */
static uint64_t loss_of(const struct peers *peers, const struct peer_file *file, unsigned peer)
{
	const struct peer_told *told = peers->told[peer];
	const struct peer_served *entry =
		told && peer_told_is_near(peers, told) ? peer_told_entry(told, &file->uuid) : NULL;

	return entry ? entry->loss : 0;
}

/* Several shared files may have one UUID and different files; the mark belongs to the namespace. */
static struct ns_live *live_of(const struct peers *peers, const struct uuid *uuid)
{
	list_for_each(node, &peers->files) {
		const struct peer_file *file = list_entry(node, struct peer_file, node);

		if (file->live && uuid_equal(&file->uuid, uuid))
			return file->live;
	}
	return NULL;
}

/* False: the mark could not be kept. */
static bool loss_draw(struct peers *peers, const struct uuid *uuid, const char *peer,
		      const char *why)
{
	struct ns_live *live = live_of(peers, uuid);
	char text[UUID_TEXT_BYTES];
	int res = ns_live_hear_loss(live, uuid, &peers->keeper);

	uuid_format(uuid, text);
	log_limited(LOG_LEVEL_WARN, "control",
		    "%s: member %s %s: acknowledged writes may be lost; hosts of this member are "
		    "notified too",
		    text, peer, why);
	if (res < 0)
		log_limited(LOG_LEVEL_ERROR, "control",
			    "%s: cannot save the loss of writes: %s; a restart forgets the loss "
			    "until member %s is linked again",
			    text, strerror(-res), peer);
	if (live && peers->target)
		target_tell_loss(peers->target, live);
	return res == 0;
}

static void loss_heard(struct peers *peers, const struct uuid *uuid, unsigned peer, uint64_t loss)
{
	list_for_each(node, &peers->files) {
		struct peer_file *file = list_entry(node, struct peer_file, node);

		if (uuid_equal(&file->uuid, uuid))
			file->heard[peer] = loss;
	}
}

void peer_loss_bind(struct peer_file *file, struct ns_live *live)
{
	if (file->live == live)
		return;
	if (file->live)
		ns_live_put(file->live);
	file->live = live ? ns_live_get(live) : NULL;
}

void peer_loss_hear(struct peers *peers, struct peer_file *file)
{
	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		uint64_t loss = loss_of(peers, file, i);
		bool is_kept;

		if (loss == 0)
			continue;
		if (!file->has_heard)
			heard_recall(peers, file);
		if (loss == file->heard[i])
			continue;
		is_kept = loss_draw(peers, &file->uuid, peers->config.peers[i].name,
				    "could not flush the namespace");
		loss_heard(peers, &file->uuid, i, loss);
		if (is_kept)
			heard_keep(peers, file);
	}
}

bool peer_loss_note(const struct peers *peers, struct peer_file *file)
{
	uint64_t own = file->live ? ns_live_loss_own(file->live, &peers->self.boot_id) : 0;
	bool is_new = own != file->entry.loss;

	file->entry.loss = own;
	return is_new;
}

/* ---- members that cannot be asked --------------------------------------------------------------
 */

static bool near_is_open(struct peers *peers, unsigned peer)
{
	const struct keeper *keeper = &peers->keeper;
	const struct uuid *boot_id = &peers->self.boot_id;
	void *value = NULL;
	size_t bytes = 0;

	if (peers->near[peer] != PEER_NEAR_UNREAD || !keeper->recall)
		return peers->near[peer] == PEER_NEAR_OPEN;
	if (keeper->recall(keeper->arg, NEAR_KIND, peers->config.peers[peer].name, &value,
			   &bytes) == 0 &&
	    bytes == sizeof(*boot_id) && memcmp(value, boot_id, bytes) == 0)
		peers->near[peer] = PEER_NEAR_OPEN;
	else
		peers->near[peer] = PEER_NEAR_NOT;
	free(value);
	return peers->near[peer] == PEER_NEAR_OPEN;
}

void peer_loss_told(struct peers *peers, unsigned peer)
{
	const struct peer_told *told = peers->told[peer];
	const struct keeper *keeper = &peers->keeper;
	const struct uuid *boot_id = &peers->self.boot_id;
	bool is_open = peer_told_is_near(peers, told) && told->generation != PEER_LIST_OVER;
	int res = 0;

	if (is_open == near_is_open(peers, peer))
		return;
	if (keeper->keep)
		res = keeper->keep(keeper->arg, NEAR_KIND, peers->config.peers[peer].name,
				   is_open ? boot_id : NULL, is_open ? sizeof(*boot_id) : 0);
	if (res < 0)
		log_limited(LOG_LEVEL_ERROR, "control",
			    "cannot save that member %s %s on this machine: %s",
			    peers->config.peers[peer].name, is_open ? "runs" : "has ended",
			    strerror(-res));
	else
		peers->near[peer] = is_open ? PEER_NEAR_OPEN : PEER_NEAR_NOT;
}

void peer_loss_ask(struct peers *peers, struct peer_file *file, const struct media *media)
{
	if (file->has_asked || !media_is_buffered(media))
		return;
	file->has_asked = true;
	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		if (peer_told_of(peers, i) || !near_is_open(peers, i))
			continue;
		(void)loss_draw(
			peers, &file->uuid, peers->config.peers[i].name,
			"ended without a shutdown, and cannot be asked whether a flush has failed");
		return;
	}
}
