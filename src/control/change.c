/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of the desired state, one after another: see control/change.h for the steps. Runs on the
 * control reactor; opening media and keeping block it, never a data reactor.
 *
 * A change is applied first and kept then: what a store says must be possible, and only applying
 * shows that (media that open, addresses that are free). Until it is kept nobody is told of
 * success, so a kill in between leaves the state before it, which nobody was told had gone.
 *
 * Two things stand beside the desired state and are added only to what is applied: the discovery
 * port and the self-check's subsystem.
 */
#include "control/change.h"

#include "base/log.h"
#include "base/text.h"
#include "control/media_registry.h"
#include "control/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum run_kind {
	RUN_CHANGE,
	RUN_START,
	RUN_PRIVATE,
};

struct changes {
	struct changes_options options;
	struct config *config; /* the desired state in force */
	uint64_t generation;
	uint64_t discovery_generation;
	bool has_discovery;
	struct net_addr discovery;
	bool has_private;
	struct daemon_private private;
	bool is_stopping;
	bool is_store_behind; /* neither kept nor taken back: the next change keeps both */
	struct list waiting;  /* struct run */
	struct list draining; /* struct drain */
	struct run *current;
	struct reactor_msg pump_msg;
	bool is_pump_posted;
};

/* Outlives its change until the commands under the former configuration are done. */
struct drain {
	struct list node;
	void (*drained)(void *arg); /* NULL: nobody wants to know any more */
	void *arg;
	struct run *run; /* while it is under way */
};

struct run {
	struct list node;
	struct changes *changes;
	enum run_kind kind;
	struct change change;
	char origin[256];
	bool has_source;
	char source_hash[STORE_HASH_BYTES];
	bool has_private;
	struct daemon_private private;
	struct config *next; /* NULL: the one in force stays */
	json_t *before;      /* what the store has; NULL: nothing */
	json_t *after;
	struct drain *drain;
	struct change_result result;
};

static void pump(struct reactor_msg *msg);

static void pump_post(struct changes *changes)
{
	if (changes->is_pump_posted)
		return;
	changes->is_pump_posted = true;
	reactor_post(changes->options.control, &changes->pump_msg, pump);
}

/* ---- the end of a change ----------------------------------------------------------------------
 */

static void run_log(const struct run *run)
{
	const struct change_result *result = &run->result;
	const char *diff = result->diff ? result->diff : "";
	size_t first = strcspn(diff, "\n");

	if (run->kind != RUN_CHANGE || run->change.is_dry_run)
		return;
	if (result->res < 0)
		log_warn("control", "a change by %s was refused: %s%s", run->origin,
			 result->errors.count > 0 ? result->errors.texts[0]
						  : strerror(-result->res),
			 result->errors.count > 1 ? ", and more" : "");
	else if (diff[0] != 0)
		log_info("control", "generation %llu, by %s: %.*s%s",
			 (unsigned long long)result->generation, run->origin, (int)first, diff,
			 diff[first] != 0 && diff[first + 1] != 0 ? ", and more" : "");
}

static void run_free(struct run *run)
{
	config_free(run->next);
	json_decref(run->before);
	json_decref(run->after);
	free(run->result.diff);
	free(run);
}

/* The change is over, with result.res. */
static void run_end(struct run *run)
{
	struct changes *changes = run->changes;

	CHECK(changes->current == run);
	changes->current = NULL;
	run->result.generation = changes->generation;
	run_log(run);
	if (run->drain) {
		run->drain->run = NULL;
		if (run->result.res < 0)
			run->drain->drained = NULL;
	}
	run->change.done(run->change.arg, &run->result);
	run_free(run);
	pump_post(changes);
}

__attribute__((format(printf, 3, 4))) static void run_fail(struct run *run, int res,
							   const char *format, ...)
{
	char text[CONFIG_ERROR_TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	config_errors_add(&run->result.errors, "%s", text);
	run->result.res = res;
	run_end(run);
}

/* As run_end, where the step that failed should have told why. */
static void run_fail_told(struct run *run, int res)
{
	if (run->result.errors.count == 0)
		config_errors_add(&run->result.errors, "%s", strerror(-res));
	run->result.res = res;
	run_end(run);
}

/* ---- what is applied: the desired state and what stands beside it -----------------------------
 */

static int snapshot_build_private(struct changes *changes, const struct config *desired,
				  const struct daemon_private *private,
				  struct snapshot **ret_snapshot, struct config_errors *errors)
{
	json_t *document = config_to_json(desired);
	struct config *copy = NULL;
	int res = document ? config_load_json(document, &copy, errors) : -ENOMEM;

	if (res == 0)
		res = config_add_private_subsystem(copy, private->nqn, private->host_nqn,
						   private->media_spec, private->port_id);
	if (res == 0) {
		if (changes->has_discovery)
			config_add_discovery_port(copy, &changes->discovery);
		res = config_build_snapshot(copy, changes->options.registry,
					    changes->discovery_generation + 1, ret_snapshot,
					    errors);
	}
	config_free(copy);
	json_decref(document);
	return res;
}

/* The discovery port owns nothing, so an array of its own is all that the copy needs. */
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
		res = config_build_snapshot(&shadow, changes->options.registry,
					    changes->discovery_generation + 1, ret_snapshot,
					    errors);
	}
	free(shadow.ports);
	return res;
}

/* ---- keeping ----------------------------------------------------------------------------------
 */

/* What was kept of namespaces that are gone is forgotten in one go. */
static void registry_commit(struct changes *changes)
{
	bool is_batch = store_batch_begin(changes->options.store) == 0;

	media_registry_commit(changes->options.registry);
	if (is_batch && store_batch_end(changes->options.store) < 0)
		log_warn("control", "what was kept of removed namespaces could not be deleted");
}

/* In force and kept: the new truth. */
static void run_accept(struct run *run)
{
	struct changes *changes = run->changes;

	registry_commit(changes);
	if (run->next) {
		config_free(changes->config);
		changes->config = run->next;
		run->next = NULL;
	}
	if (run->kind == RUN_PRIVATE) {
		changes->has_private = run->has_private;
		changes->private = run->private;
	}
	run_end(run);
}

static void run_taken_back(void *arg, int res, const char *error)
{
	struct run *run = arg;
	struct changes *changes = run->changes;

	if (res == 0) {
		media_registry_rollback(changes->options.registry);
		run_end(run);
		return;
	}
	registry_commit(changes);
	log_error(
		"control",
		"a change could neither be kept nor taken back (%s): it is in force, but will not "
		"survive a restart; make any other change once the store can be written",
		error && error[0] != 0 ? error : strerror(-res));
	changes->is_store_behind = true;
	changes->generation++;
	config_free(changes->config);
	changes->config = run->next;
	run->next = NULL;
	run_end(run);
}

/* It is in force but could not be kept: the former configuration comes back. */
static void run_take_back(struct run *run)
{
	struct changes *changes = run->changes;
	struct config_errors errors = {.count = 0};
	struct snapshot *snapshot;
	int res = -ENOENT;

	/* The registry's transaction stays open: it has the former media beside the new ones. */
	if (changes->config)
		res = snapshot_build(changes, changes->config,
				     changes->has_private ? &changes->private : NULL, &snapshot,
				     &errors);
	if (res == 0) {
		changes->discovery_generation++;
		target_apply(changes->options.target, snapshot, run_taken_back, run);
		return;
	}
	if (!changes->config) {
		/* The start: the process is about to end. */
		media_registry_rollback(changes->options.registry);
		run_end(run);
		return;
	}
	run_taken_back(run, res, errors.texts[0]);
}

static int run_keep(struct run *run)
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

static void run_applied(void *arg, int res, const char *error)
{
	struct run *run = arg;

	if (res < 0) {
		media_registry_rollback(run->changes->options.registry);
		if (run->drain) {
			/* It will not be told. */
			list_remove(&run->drain->node);
			free(run->drain);
			run->drain = NULL;
		}
		run_fail(run, res, "%s", error && error[0] != 0 ? error : strerror(-res));
		return;
	}
	if (run->after) {
		run->result.res = run_keep(run);
		if (run->result.res < 0) {
			run_take_back(run);
			return;
		}
	}
	run_accept(run);
}

/* For target_apply_and_drain, which has one argument for both. */
static void drain_applied(void *arg, int res, const char *error)
{
	run_applied(((struct drain *)arg)->run, res, error);
}

static void drain_drained(void *arg)
{
	struct drain *drain = arg;

	list_remove(&drain->node);
	/* A change that is being taken back is drained too, and nobody wants to know. */
	if (drain->run)
		drain->run->drain = NULL;
	else if (drain->drained)
		drain->drained(drain->arg);
	free(drain);
}

static int run_drain_create(struct run *run)
{
	struct drain *drain = calloc(1, sizeof(*drain));

	if (!drain)
		return -ENOMEM;
	drain->drained = run->change.drained;
	drain->arg = run->change.arg;
	drain->run = run;
	list_push_back(&run->changes->draining, &drain->node);
	run->drain = drain;
	return 0;
}

/* run->next, or what is in force, with the private subsystem that shall be there. */
static void run_apply(struct run *run)
{
	struct changes *changes = run->changes;
	const struct config *desired = run->next ? run->next : changes->config;
	const struct daemon_private *private = run->kind == RUN_PRIVATE
						       ? (run->has_private ? &run->private : NULL)
					       : changes->has_private ? &changes->private
								      : NULL;
	struct snapshot *snapshot;
	int res = run->change.drained ? run_drain_create(run) : 0;

	if (res == 0)
		res = snapshot_build(changes, desired, private, &snapshot, &run->result.errors);
	if (res < 0) {
		if (run->drain) {
			list_remove(&run->drain->node);
			free(run->drain);
			run->drain = NULL;
		}
		run_fail_told(run, res);
		return;
	}
	changes->discovery_generation++;
	if (run->drain)
		target_apply_and_drain(changes->options.target, snapshot, drain_applied,
				       drain_drained, run->drain);
	else
		target_apply(changes->options.target, snapshot, run_applied, run);
}

/* ---- checking ---------------------------------------------------------------------------------
 */

/* before, after, next and the difference. 0, or -errno with an error. */
static int run_check(struct run *run)
{
	struct changes *changes = run->changes;
	struct config_errors *errors = &run->result.errors;
	json_t *document;
	int res;

	run->before = config_to_json(changes->config);
	document = json_deep_copy(run->before);
	if (!document) {
		config_errors_add(errors, "out of memory");
		return -ENOMEM;
	}
	res = run->change.edit(document, run->change.arg, errors);
	if (res == 0)
		res = config_load_json(document, &run->next, errors);
	json_decref(document);
	if (res == 0)
		res = config_check_transition(changes->config, run->next, errors);
	if (res < 0)
		return res;
	run->after = config_to_json(run->next);
	run->result.diff = config_diff(changes->config, run->next);
	if (run->after && run->result.diff)
		return 0;
	config_errors_add(errors, "out of memory");
	return -ENOMEM;
}

/* Nothing differs: at most the source is another. */
static int run_keep_source(struct run *run)
{
	struct changes *changes = run->changes;
	struct store_change change = {
		.before = run->before,
		.after = run->after,
		.generation = changes->generation,
		.source_hash = run->source_hash,
		.origin = run->origin,
		.diff = "",
	};
	struct store_error error;
	int res;

	if (!run->has_source || changes->is_store_behind ||
	    strcmp(run->source_hash, store_source_hash(changes->options.store)) == 0)
		return 0;
	res = store_keep_document(changes->options.store, &change, &error);
	if (res < 0)
		config_errors_add(&run->result.errors, "%s", error.text);
	return res;
}

static void run_begin_change(struct run *run)
{
	const struct changes *changes = run->changes;
	uint64_t expected = run->change.expected_generation;
	int res;

	if (!changes->config) {
		run_fail(run, -EAGAIN, "the target has not started");
		return;
	}
	if (expected != 0 && expected != changes->generation) {
		run_fail(run, -ESTALE,
			 "the configuration has changed since: it is at generation %llu by now, "
			 "not %llu; look at it again",
			 (unsigned long long)changes->generation, (unsigned long long)expected);
		return;
	}
	res = run_check(run);
	if (res < 0) {
		run_fail_told(run, res);
		return;
	}
	if (run->change.is_dry_run) {
		run_end(run);
		return;
	}
	if (!json_equal(run->before, run->after)) {
		run_apply(run);
		return;
	}
	run->result.res = run_keep_source(run);
	if (run->result.res < 0 || (!run->change.is_forced && !run->change.drained)) {
		run_end(run);
		return;
	}
	/* Nothing to keep: what is beside the document has changed. */
	json_decref(run->after);
	run->after = NULL;
	run_apply(run);
}

/* Something new, or what is kept in its present form: only what differs is kept. */
static void run_begin_start(struct run *run)
{
	run->after = config_to_json(run->next);
	if (!run->after) {
		run_fail_told(run, -ENOMEM);
		return;
	}
	if (run->before && !run->has_source && json_equal(run->before, run->after)) {
		json_decref(run->after);
		run->after = NULL;
	}
	run_apply(run);
}

static void run_begin(struct run *run)
{
	if (run->changes->is_stopping)
		run_fail(run, -ESHUTDOWN, "the target is stopping");
	else if (run->kind == RUN_START)
		run_begin_start(run);
	else if (run->kind == RUN_PRIVATE)
		run_apply(run);
	else
		run_begin_change(run);
}

/* ---- the queue --------------------------------------------------------------------------------
 */

static void pump(struct reactor_msg *msg)
{
	struct changes *changes = container_of(msg, struct changes, pump_msg);
	struct list *node;

	changes->is_pump_posted = false;
	if (changes->current)
		return;
	node = list_pop_front(&changes->waiting);
	if (node) {
		changes->current = list_entry(node, struct run, node);
		run_begin(changes->current);
	} else if (changes->is_stopping) {
		changes->options.stopped(changes->options.arg);
	}
}

static void origin_take(struct run *run, const char *origin)
{
	text_copy(run->origin, sizeof(run->origin), origin ? origin : "somebody");
}

static struct run *run_add(struct changes *changes, enum run_kind kind, const struct change *change)
{
	struct run *run = calloc(1, sizeof(*run));

	/* A few kilobytes: without them nothing could be told to anybody either. */
	CHECK(run);
	run->changes = changes;
	run->kind = kind;
	run->change = *change;
	origin_take(run, change->origin);
	run->change.origin = run->origin;
	list_push_back(&changes->waiting, &run->node);
	pump_post(changes);
	return run;
}

static void source_take(struct run *run, const char *source_hash)
{
	run->has_source = source_hash != NULL;
	if (source_hash)
		text_copy(run->source_hash, sizeof(run->source_hash), source_hash);
}

void changes_start(struct changes *changes, struct config *taken_config, json_t *kept,
		   const char *source_hash, const struct change *change)
{
	struct run *run = run_add(changes, RUN_START, change);

	run->next = taken_config;
	run->before = json_incref(kept);
	source_take(run, source_hash);
}

void changes_submit(struct changes *changes, const struct change *change, const char *source_hash)
{
	source_take(run_add(changes, RUN_CHANGE, change), source_hash);
}

void changes_submit_private(struct changes *changes, const struct daemon_private *private,
			    const struct change *change)
{
	struct run *run = run_add(changes, RUN_PRIVATE, change);

	run->has_private = private != NULL;
	if (private)
		run->private = *private;
}

void changes_stop(struct changes *changes)
{
	changes->is_stopping = true;
	pump_post(changes);
}

void changes_set_discovery(struct changes *changes, const struct net_addr *addr)
{
	changes->has_discovery = true;
	changes->discovery = *addr;
}

const struct config *changes_config(const struct changes *changes)
{
	return changes->config;
}

uint64_t changes_generation(const struct changes *changes)
{
	return changes->generation;
}

int changes_create(const struct changes_options *options, struct changes **ret_changes)
{
	struct changes *changes = calloc(1, sizeof(*changes));

	if (!changes)
		return -ENOMEM;
	changes->options = *options;
	changes->generation = options->generation;
	list_init(&changes->waiting);
	list_init(&changes->draining);
	*ret_changes = changes;
	return 0;
}

void changes_destroy(struct changes *changes)
{
	struct list *node;

	if (!changes)
		return;
	changes->is_stopping = true;
	while ((node = list_pop_front(&changes->waiting)) != NULL) {
		changes->current = list_entry(node, struct run, node);
		/* No more pump, which would run on a reactor that has stopped. */
		changes->is_pump_posted = true;
		run_begin(changes->current);
	}
	while ((node = list_pop_front(&changes->draining)) != NULL)
		free(list_entry(node, struct drain, node));
	config_free(changes->config);
	free(changes);
}
