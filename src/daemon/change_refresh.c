/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts ANA states in force that are in no document: the end of a transition, and of a hold. Hosts
 * wait for ANATT at most, so a refresh does not wait for the change under way, which may take 10 s
 * for media that open late, and 5 s for the flush of leaving media. The refresh copies the
 * configuration in force. The target applies one configuration at a time: a refresh waits for an
 * application that the change has begun, and the change for that of a refresh; both are short.
 *
 * Control reactor only.
 */
#include "daemon/change_run.h"
#include "daemon/snapshot_build.h"

#include <errno.h>
#include <string.h>

static void refreshes_done(struct list *refreshes, int res)
{
	struct list *node;

	while ((node = list_pop_front(refreshes))) {
		struct changes_refresh *refresh = list_entry(node, struct changes_refresh, node);

		refresh->done(refresh->arg, res);
	}
}

static void refreshed(void *arg, int res, const char *error)
{
	struct changes *changes = arg;
	struct change_run *held = changes->held;

	changes->is_refreshing = false;
	changes->held = NULL;
	if (res == 0)
		changes_note_applied(changes);
	refreshes_done(&changes->refreshing, res);
	if (held)
		changes->held_go(held);
	changes_refresh_go(changes);
	changes_pump(changes);
}

void changes_refresh_go(struct changes *changes)
{
	const struct change_run *run = changes->current;
	const struct config *config =
		run && run->is_in_force && run->next ? run->next : changes->config;
	struct snapshot *snapshot;
	struct list *node;
	int res;

	if (changes->is_applying || changes->is_refreshing || list_empty(&changes->refreshes))
		return;
	while ((node = list_pop_front(&changes->refreshes)))
		list_push_back(&changes->refreshing, node);
	res = changes->is_stopping
		      ? -ESHUTDOWN
		      : snapshot_with_ana(target_snapshot(changes->options.target), config,
					  changes->options.registry,
					  changes->discovery_generation + 1, &snapshot);
	if (res < 0) {
		refreshes_done(&changes->refreshing, res);
		return;
	}
	changes->discovery_generation++;
	changes->is_refreshing = true;
	if (changes->options.applying)
		changes->options.applying(changes->options.arg, snapshot);
	target_apply(changes->options.target, snapshot, refreshed, changes);
}

void changes_refresh(struct changes *changes, struct changes_refresh *refresh)
{
	list_push_back(&changes->refreshes, &refresh->node);
	changes_refresh_go(changes);
}

bool change_run_is_held(struct change_run *run, void (*go)(struct change_run *run))
{
	struct changes *changes = run->changes;

	if (!changes->is_refreshing)
		return false;
	changes->held = run;
	changes->held_go = go;
	return true;
}
