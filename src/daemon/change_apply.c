/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies a change and keeps it, or takes it back. Runs on the control reactor. Opening media and
 * keeping block this reactor, never a data reactor. Media that open late do not block: the change
 * waits for all of them together, and changes behind it wait for it.
 *
 * A change is applied first and kept then, because a document in the store must be possible, and
 * only applying shows that (media that open, addresses that are free). Success is reported after
 * the change was kept. So a kill in between leaves the former state, whose end was never reported.
 * A store that passes from one namespace to another is inaccessible until the change is kept, and
 * is given to hosts by a second apply.
 *
 * The discovery port and the self-check's subsystem are not part of the desired state. They are
 * added only to what is applied.
 */
#include "daemon/change_run.h"
#include "daemon/snapshot_build.h"

#include "base/log.h"
#include "daemon/ana_hold.h"
#include "daemon/leaving_flush.h"
#include "daemon/manage.h"
#include "daemon/media_registry.h"
#include "target/barrier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is applied: the desired state and what stands beside it -----------------------------
 */

static int snapshot_build_private(struct changes *changes, const struct config *desired,
				  const struct daemon_private *private,
				  struct snapshot **ret_snapshot, struct config_errors *errors)
{
	json_t *document = config_to_edit_json(desired);
	struct config *copy = NULL;
	int res = document ? config_load_json(document, &copy, errors) : -ENOMEM;

	if (res == 0)
		res = config_identify(copy, desired, errors);
	if (res == 0)
		res = config_add_private_subsystem(copy, private->nqn, private->host_nqn,
						   private->media_spec, &private->uuid,
						   private->port_id);
	if (res == 0) {
		if (changes->has_discovery)
			config_add_discovery_port(copy, &changes->discovery);
		res = snapshot_from_config(copy, changes->options.registry,
					   changes->discovery_generation + 1, ret_snapshot, errors);
	}
	config_free(copy);
	json_decref(document);
	return res;
}

/* The shadow configuration needs only an array of ports of its own, because the discovery port owns
 * nothing. */
static int snapshot_build(struct changes *changes, const struct config *desired,
			  const struct daemon_private *private, struct snapshot **ret_snapshot,
			  struct config_errors *errors)
{
	struct config shadow = *desired;
	int res = -ENOMEM;

	if (private)
		return snapshot_build_private(changes, desired, private, ret_snapshot, errors);
	shadow.ports = calloc(desired->port_count + 1, sizeof(*shadow.ports));
	if (shadow.ports) {
		if (desired->port_count > 0)
			memcpy(shadow.ports, desired->ports,
			       desired->port_count * sizeof(*shadow.ports));
		if (changes->has_discovery)
			config_add_discovery_port(&shadow, &changes->discovery);
		res = snapshot_from_config(&shadow, changes->options.registry,
					   changes->discovery_generation + 1, ret_snapshot, errors);
	}
	free(shadow.ports);
	return res;
}

/* Builds the snapshot of the run's configuration, with the private subsystem that shall exist. */
static int run_snapshot(struct change_run *run, struct snapshot **ret_snapshot,
			struct config_errors *errors)
{
	struct changes *changes = run->changes;
	const struct config *desired = run->next ? run->next : changes->config;
	const struct daemon_private *private = run->kind == RUN_PRIVATE
						       ? (run->has_private ? &run->private : NULL)
					       : changes->has_private ? &changes->private
								      : NULL;

	return snapshot_build(changes, desired, private, ret_snapshot, errors);
}

/* ---- keeping ----------------------------------------------------------------------------------
 */

/* Commits the registry. The store forgets the kept state of removed namespaces in one
 * transaction. */
static void registry_commit(struct changes *changes, bool is_kept)
{
	bool is_batch = store_batch_begin(changes->options.store) == 0;

	if (is_kept)
		media_registry_commit(changes->options.registry);
	else
		media_registry_commit_unkept(changes->options.registry);
	if (is_batch && store_batch_end(changes->options.store) < 0) {
		media_registry_set_unkept(changes->options.registry);
		log_warn("control", "cannot save permanent write protection and the state of "
				    "removed namespaces; the next change tries again");
	}
}

/* The change is in force and kept: its configuration becomes the current one. */
static void run_accept(struct change_run *run)
{
	struct changes *changes = run->changes;

	registry_commit(changes, true);
	if (run->next) {
		config_free(changes->config);
		changes->config = run->next;
		run->next = NULL;
	}
	if (run->kind == RUN_PRIVATE) {
		changes->has_private = run->has_private;
		changes->private = run->private;
	}
	change_run_end(run);
}

static void run_tell_applying(struct changes *changes, const struct snapshot *snapshot)
{
	if (changes->options.applying)
		changes->options.applying(changes->options.arg, snapshot);
}

void changes_note_applied(struct changes *changes)
{
	ana_holds_settle(media_registry_ana_holds(changes->options.registry));
	if (changes->options.applied)
		changes->options.applied(changes->options.arg);
}

static void run_taken_back_end(struct change_run *run, int res, const char *error)
{
	struct changes *changes = run->changes;

	if (res == 0) {
		changes_note_applied(changes);
		media_registry_rollback(changes->options.registry);
		change_run_end(run);
		return;
	}
	registry_commit(changes, false);
	log_error(
		"control",
		"a change could be neither saved nor undone (%s): the change is in force, but will "
		"not survive a restart; make any other change once the state store can be written",
		error && error[0] != 0 ? error : strerror(-res));
	changes->is_store_behind = true;
	changes->generation++;
	config_free(changes->config);
	changes->config = run->next;
	run->next = NULL;
	change_run_end(run);
}

static void run_taken_back(void *arg, int res, const char *error)
{
	struct change_run *run = arg;
	struct changes *changes = run->changes;

	changes->is_applying = false;
	run_taken_back_end(run, res, error);
	changes_refresh_go(changes);
}

/* The change is in force but could not be kept: applies the former configuration again. */
static void run_take_back(struct change_run *run)
{
	struct changes *changes = run->changes;
	struct config_errors errors = {.count = 0};
	struct snapshot *snapshot;
	int res = -ENOENT;

	if (change_run_is_held(run, run_take_back))
		return;
	/* The registry's transaction stays open, because it has the former media beside the new
	 * ones. A lost medium is requested as lost: a medium that a recheck opened closes with the
	 * transaction, and a snapshot that held such a medium would keep the next recheck from
	 * opening the file. */
	media_registry_end_wishes(changes->options.registry, false);
	if (changes->config)
		res = snapshot_build(changes, changes->config,
				     changes->has_private ? &changes->private : NULL, &snapshot,
				     &errors);
	if (res == 0) {
		changes->discovery_generation++;
		run_tell_applying(changes, snapshot);
		changes->is_applying = true;
		target_apply(changes->options.target, snapshot, run_taken_back, run);
		return;
	}
	if (!changes->config) {
		/* The start failed: the process is about to end. */
		media_registry_rollback(changes->options.registry);
		change_run_end(run);
		return;
	}
	run_taken_back(run, res, errors.texts[0]);
}

static int run_keep(struct change_run *run)
{
	struct changes *changes = run->changes;
	struct store_change change = {
		.before = run->before,
		.after = run->after,
		.generation = changes->generation + 1,
		.source_hash = run->has_source ? run->source_hash : NULL,
		.origin = run->origin,
		.diff = run->result.diff,
	};
	struct store_error error;
	json_t *kept = NULL;
	int res;

	if (changes->is_store_behind) {
		res = store_load_document(changes->options.store, &kept, &error);
		if (res < 0 && res != -ENOENT) {
			config_errors_add(&run->result.errors, "%s", error.text);
			return res;
		}
		change.before = kept;
	}
	res = store_keep_document(changes->options.store, &change, &error);
	json_decref(kept);
	if (res < 0) {
		config_errors_add(&run->result.errors, "%s", error.text);
		return res;
	}
	changes->is_store_behind = false;
	changes->generation++;
	return 0;
}

/* ---- applying ---------------------------------------------------------------------------------
 */

/* Hosts have what the change withheld. */
static void run_released_end(struct change_run *run, int res, const char *error)
{
	if (res < 0)
		log_error("control",
			  "a change by %s is saved, but the namespaces whose files were those of "
			  "other namespaces stay inaccessible (%s); any other change serves them",
			  run->origin, error && error[0] != 0 ? error : strerror(-res));
	else
		changes_note_applied(run->changes);
	run_accept(run);
}

static void run_released(void *arg, int res, const char *error)
{
	struct change_run *run = arg;
	struct changes *changes = run->changes;

	changes->is_applying = false;
	run_released_end(run, res, error);
	changes_refresh_go(changes);
}

/* The change is kept: gives hosts the stores that have passed to other namespaces. */
static void run_release(struct change_run *run)
{
	struct changes *changes = run->changes;
	struct config_errors errors = {.count = 0};
	struct snapshot *snapshot;
	int res;

	if (change_run_is_held(run, run_release))
		return;
	res = run_snapshot(run, &snapshot, &errors);
	if (res < 0) {
		run_released_end(run, res, errors.texts[0]);
		return;
	}
	changes->discovery_generation++;
	changes->is_applying = true;
	run_tell_applying(changes, snapshot);
	target_apply(changes->options.target, snapshot, run_released, run);
}

/* The leaving namespaces were flushed, or their hosts will learn of the loss. */
static void run_flushed(void *arg)
{
	struct change_run *run = arg;
	struct media_registry *registry = run->changes->options.registry;

	if (run->after) {
		media_registry_note_leaving(registry);
		run->result.res = run_keep(run);
		if (run->result.res < 0) {
			run_take_back(run);
			return;
		}
	}
	/* The document of a start without a change is in the store. */
	if (run->after || run->kind == RUN_START)
		media_registry_note_kept(registry);
	/* A host's command that waits for the drain passes no store on, and its drain must not end
	 * during a second apply (drain_drained). */
	if (media_registry_has_passed_any(registry) && !run->change.drained)
		run_release(run);
	else
		run_accept(run);
}

static void drain_drained(void *arg, int res);

static void run_applied_go_on(struct change_run *run, int res, const char *error)
{
	if (res < 0) {
		media_registry_rollback(run->changes->options.registry);
		if (run->drain) {
			/* `drained` is not called after an error. */
			list_remove(&run->drain->node);
			free(run->drain);
			run->drain = NULL;
		}
		change_run_fail(run, res, "%s", error && error[0] != 0 ? error : strerror(-res));
		return;
	}
	run->is_in_force = true;
	changes_note_applied(run->changes);
	/* No flush before a drain: drain_drained would drop a drain that ends during the flush. The
	 * host's command that waits for the drain decides itself what becomes of the data. */
	if (run->drain && !run->change.drained) {
		run->drain->waits++;
		run->drain->number = run->changes->discovery_generation;
		manage_formats_stop(&run->drain->formats, run->changes->options.target,
				    &run->drain->number, drain_drained, run->drain);
	}
	if (run->change.drained)
		run_flushed(run);
	else
		leaving_flush(run->changes->options.registry, run->changes->options.control,
			      run_flushed, run);
}

static void run_applied(void *arg, int res, const char *error)
{
	struct change_run *run = arg;
	struct changes *changes = run->changes;

	changes->is_applying = false;
	run_applied_go_on(run, res, error);
	changes_refresh_go(changes);
}

/* target_apply_and_drain has one argument for both callbacks. */
static void drain_applied(void *arg, int res, const char *error)
{
	run_applied(((struct drain *)arg)->run, res, error);
}

/* No command uses a right any more that the change has taken. */
static void run_rights_drained(struct drain *drain, int res)
{
	struct change_run *run = drain->run;

	run->drain = NULL;
	run->result.is_late = res < 0;
	if (res < 0)
		log_limited(LOG_LEVEL_WARN, "control",
			    "a change by %s is in force, but commands that it no longer allows "
			    "still run after %u s, because their medium does not end them",
			    run->origin, BARRIER_END_S);
	if (drain->has_answer)
		change_run_answer(run);
}

static void drain_drained(void *arg, int res)
{
	struct drain *drain = arg;

	drain->res = drain->res < 0 ? drain->res : res;
	if (--drain->waits > 0)
		return;
	res = drain->res;
	list_remove(&drain->node);
	if (drain->run && !drain->drained)
		run_rights_drained(drain, res);
	/* The run is still under way, so the change is being taken back: its drain has no
	 * receiver. */
	else if (drain->run)
		drain->run->drain = NULL;
	else if (drain->drained)
		drain->drained(drain->arg, res);
	free(drain);
}

static int run_drain_create(struct change_run *run)
{
	struct drain *drain = calloc(1, sizeof(*drain));

	if (!drain)
		return -ENOMEM;
	drain->drained = run->change.drained;
	drain->arg = run->change.arg;
	drain->run = run;
	drain->waits = 1;
	list_push_back(&run->changes->draining, &drain->node);
	run->drain = drain;
	return 0;
}

/* Nothing of the change is in force. Ends the run; the errors have the reason. */
static void run_refuse(struct change_run *run, int res)
{
	if (run->drain) {
		/* `drained` is not called after an error. */
		list_remove(&run->drain->node);
		free(run->drain);
		run->drain = NULL;
	}
	change_run_fail_told(run, res);
}

/* The target stops before anything of the change is in force. */
static void run_stop(struct change_run *run)
{
	media_registry_rollback(run->changes->options.registry);
	config_errors_add(&run->result.errors, "the target is stopping");
	run_refuse(run, -ESHUTDOWN);
}

static void run_build(struct change_run *run);

/* All media of the change have opened, or failed to open. */
static void run_opened(void *arg, int res)
{
	struct change_run *run = arg;

	if (res == 0)
		run_build(run);
	else
		run_stop(run);
}

static void run_apply(struct change_run *run, struct snapshot *snapshot)
{
	struct changes *changes = run->changes;
	struct target_scope scope = {0};

	changes->discovery_generation++;
	changes->is_applying = true;
	run_tell_applying(changes, snapshot);
	if (run->change.drained && run->change.scope)
		scope = run->change.scope(run->change.arg);
	manage_formats_note(changes->options.target);
	if (run->drain)
		target_apply_and_drain(changes->options.target, snapshot,
				       run->change.drained ? &scope : NULL, drain_applied,
				       drain_drained, run->drain);
	else
		target_apply(changes->options.target, snapshot, run_applied, run);
}

/* Called again when media that open late have opened. */
static void run_build(struct change_run *run)
{
	struct changes *changes = run->changes;
	struct snapshot *snapshot;
	int res;

	if (change_run_is_held(run, run_build))
		return;
	/* Media that open late would delay the stop. */
	if (changes->is_stopping) {
		run_stop(run);
		return;
	}
	res = run_snapshot(run, &snapshot, &run->result.errors);
	if (res == -EINPROGRESS) {
		media_registry_wait(changes->options.registry, changes->options.control, run_opened,
				    run);
		return;
	}
	if (res < 0) {
		/* A failure before media_registry_begin leaves the transaction of the first build
		 * open. */
		media_registry_rollback(changes->options.registry);
		run_refuse(run, res);
		return;
	}
	run_apply(run, snapshot);
}

void change_run_apply(struct change_run *run)
{
	bool has_drain = run->kind == RUN_CHANGE || run->change.drained;
	int res = has_drain ? run_drain_create(run) : 0;

	if (res < 0)
		run_refuse(run, res);
	else
		run_build(run);
}
