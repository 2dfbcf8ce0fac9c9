/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of the desired state, one after another: see daemon/change.h for the steps. Runs on the
 * control reactor. Opening media and keeping block this reactor, never a data reactor.
 *
 * This file owns the queue, the check of a change and its end. change_apply.c has the steps in
 * between.
 */
#include "daemon/change_run.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "config/json_whole.h"
#include "daemon/foresee.h"
#include "daemon/media_registry.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* Freed memory of a change goes back to the kernel after this time: changes that follow at once
 * reuse it. */
#define TRIM_AFTER_NS NS_PER_S

static void pump(struct reactor_msg *msg);

void changes_pump(struct changes *changes)
{
	if (changes->is_pump_posted)
		return;
	changes->is_pump_posted = true;
	reactor_post(changes->options.control, &changes->pump_msg, pump);
}

/* ---- the end of a change ----------------------------------------------------------------------
 */

static void run_log(const struct change_run *run)
{
	const struct change_result *result = &run->result;
	const char *diff = result->diff ? result->diff : "";
	size_t first = strcspn(diff, "\n");

	if (run->kind != RUN_CHANGE || run->change.is_dry_run)
		return;
	/* Rate-limited, because hosts with a right can repeat changes all day. The audit has every
	 * change. */
	if (result->res < 0)
		log_limited(
			LOG_LEVEL_WARN, "control", "a change by %s was refused: %s%s", run->origin,
			result->errors.count > 0 ? result->errors.texts[0] : strerror(-result->res),
			result->errors.count > 1 ? ", and more" : "");
	else if (diff[0] != 0)
		log_limited(LOG_LEVEL_INFO, "control", "generation %llu, by %s: %.*s%s",
			    (unsigned long long)result->generation, run->origin, (int)first, diff,
			    diff[first] != 0 && diff[first + 1] != 0 ? ", and more" : "");
}

/*
 * A change of ten thousand namespaces leaves some ten megabytes of freed documents behind in small
 * pieces, which the allocator would keep.
 */
static void memory_trim(void)
{
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

static void trim_due(struct reactor_timer *timer)
{
	memory_trim();
}

static void run_free_documents(struct change_run *run)
{
	config_free(run->next);
	json_decref(run->before);
	json_decref(run->after);
	run->next = NULL;
	run->before = NULL;
	run->after = NULL;
}

static void run_free(struct change_run *run)
{
	run_free_documents(run);
	free(run->result.diff);
	free(run);
}

/* Before the next change begins, and before the answer. */
static void change_tell_ended(const struct change *change, const struct change_result *result)
{
	if (change->ended)
		change->ended(change->arg, result);
}

void change_run_answer(struct change_run *run)
{
	run->change.done(run->change.arg, &run->result);
	run_free(run);
}

void change_run_end(struct change_run *run)
{
	struct changes *changes = run->changes;

	CHECK(changes->current == run);
	changes->current = NULL;
	if (changes->options.registry)
		media_registry_end_wishes(changes->options.registry, run->result.res == 0);
	run->result.generation = changes->generation;
	run_log(run);
	run_free_documents(run);
	change_tell_ended(&run->change, &run->result);
	if (run->kind == RUN_START)
		memory_trim();
	else if (!changes->is_stopping && !changes->trim_timer.armed)
		reactor_timer_arm(&changes->trim_timer,
				  reactor_now_ns(changes->options.control) + TRIM_AFTER_NS);
	changes_pump(changes);
	if (run->drain && !run->change.drained && run->result.res == 0 && !changes->is_stopping) {
		run->drain->has_answer = true;
		return;
	}
	if (run->drain) {
		run->drain->run = NULL;
		if (run->result.res < 0)
			run->drain->drained = NULL;
	}
	change_run_answer(run);
}

static struct drain *drain_with_answer(const struct changes *changes)
{
	list_for_each(node, &changes->draining) {
		struct drain *drain = list_entry(node, struct drain, node);

		if (drain->has_answer)
			return drain;
	}
	return NULL;
}

/* The target stops, and its commands end. Searches from the start each time, because the answer to
 * a host's command may end drains. */
static void answers_end(struct changes *changes)
{
	struct drain *drain;

	while ((drain = drain_with_answer(changes))) {
		struct change_run *run = drain->run;

		drain->has_answer = false;
		drain->run = NULL;
		change_run_answer(run);
	}
}

void change_run_fail(struct change_run *run, int res, const char *format, ...)
{
	char text[CONFIG_ERROR_TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	config_errors_add(&run->result.errors, "%s", text);
	run->result.res = res;
	change_run_end(run);
}

/* As change_run_fail. The failed step should have added an error; without one, strerror is
 * added. */
void change_run_fail_told(struct change_run *run, int res)
{
	if (run->result.errors.count == 0)
		config_errors_add(&run->result.errors, "%s", strerror(-res));
	run->result.res = res;
	change_run_end(run);
}

/* ---- checking ---------------------------------------------------------------------------------
 */

/* Fills before, after, next and the difference. 0, or -errno with an error. */
static int run_check(struct change_run *run)
{
	struct changes *changes = run->changes;
	struct config_errors *errors = &run->result.errors;
	unsigned losses = json_whole_losses();
	json_t *document;
	int res;

	run->before = config_to_json(changes->config);
	document = config_to_edit_json(changes->config);
	if (!run->before || !document) {
		json_decref(document);
		config_errors_add(errors, "out of memory");
		return -ENOMEM;
	}
	res = run->change.edit(document, run->change.arg, errors);
	if (res == 0)
		res = config_load_json(document, &run->next, errors);
	json_decref(document);
	if (res == 0)
		res = config_identify(run->next, changes->config, errors);
	if (res == 0)
		res = config_check_transition(changes->config, run->next, errors);
	if (res < 0)
		return res;
	run->after = config_to_json(run->next);
	run->result.diff = config_diff(changes->config, run->next);
	if (run->after && run->result.diff)
		res = foresee_change(changes->options.registry, changes->config, run->next,
				     &run->result.diff, errors);
	if (res < 0 && res != -ENOMEM)
		return res;
	if (res == 0 && run->after && run->result.diff && json_whole_losses() == losses)
		return 0;
	config_errors_add(errors, "out of memory");
	return -ENOMEM;
}

/* The document is unchanged: keeps only the hash of the source, if that differs. */
static int run_keep_source(struct change_run *run)
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

	if (!run->has_source ||
	    strcmp(run->source_hash, store_source_hash(changes->options.store)) == 0)
		return 0;
	res = store_keep_document(changes->options.store, &change, &error);
	if (res < 0)
		config_errors_add(&run->result.errors, "%s", error.text);
	return res;
}

static void run_begin_change(struct change_run *run)
{
	const struct changes *changes = run->changes;
	uint64_t expected = run->change.expected_generation;
	int res;

	if (!changes->config) {
		change_run_fail(run, -EAGAIN, "the target has not started");
		return;
	}
	if (expected != 0 && expected != changes->generation) {
		change_run_fail(run, -ESTALE,
				"the configuration is at generation %llu, not %llu: read the "
				"configuration again, then repeat the change",
				(unsigned long long)changes->generation,
				(unsigned long long)expected);
		return;
	}
	res = run_check(run);
	if (res < 0) {
		change_run_fail_told(run, res);
		return;
	}
	if (run->change.is_dry_run) {
		change_run_end(run);
		return;
	}
	/* A configuration that is in force but could not be kept is kept with the next change, even
	 * with one that leaves the document as it is. */
	if (!json_equal(run->before, run->after) || changes->is_store_behind) {
		change_run_apply(run);
		return;
	}
	run->result.res = run_keep_source(run);
	if (run->result.res < 0 || (!run->change.is_forced && !run->change.drained)) {
		change_run_end(run);
		return;
	}
	/* The document is unchanged, so nothing is kept. State beside the document has changed. */
	json_decref(run->after);
	run->after = NULL;
	change_run_apply(run);
}

/* Starts with a new configuration, or with the kept one in its present form. Only differences from
 * the kept document are kept. */
static void run_begin_start(struct change_run *run)
{
	run->after = config_to_json(run->next);
	if (!run->after) {
		change_run_fail_told(run, -ENOMEM);
		return;
	}
	if (run->before && json_equal(run->before, run->after)) {
		int res = run_keep_source(run);

		if (res < 0) {
			change_run_fail_told(run, res);
			return;
		}
		json_decref(run->after);
		run->after = NULL;
	}
	change_run_apply(run);
}

static void run_begin(struct change_run *run)
{
	if (run->changes->is_stopping)
		change_run_fail(run, -ESHUTDOWN, "the target is stopping");
	else if (run->kind == RUN_START)
		run_begin_start(run);
	else if (run->kind == RUN_PRIVATE)
		change_run_apply(run);
	else
		run_begin_change(run);
}

/* ---- the queue --------------------------------------------------------------------------------
 */

/* The operator's changes run first, because hosts can ask for changes all day. */
static struct list *waiting_pop(struct changes *changes)
{
	struct list *node = list_pop_front(&changes->waiting);

	return node ? node : list_pop_front(&changes->hosts);
}

static void pump(struct reactor_msg *msg)
{
	struct changes *changes = container_of(msg, struct changes, pump_msg);
	struct list *node;

	changes->is_pump_posted = false;
	if (changes->current)
		return;
	node = waiting_pop(changes);
	if (node) {
		changes->current = list_entry(node, struct change_run, node);
		run_begin(changes->current);
	} else if (changes->is_stopping && !changes->is_refreshing) {
		changes->options.stopped(changes->options.arg);
	}
}

static void origin_take(struct change_run *run, const char *origin)
{
	text_copy(run->origin, sizeof(run->origin), origin ? origin : "unknown");
}

/* Without memory for a run the change fails before this function returns. Hosts are still
 * served. */
static void change_refuse(const struct changes *changes, const struct change *change)
{
	struct change_result result = {.res = -ENOMEM, .generation = changes->generation};

	config_errors_add(&result.errors, "out of memory");
	change_tell_ended(change, &result);
	change->done(change->arg, &result);
}

/* Queues a change. NULL: the change has failed, and `done` was called. */
static struct change_run *run_add(struct changes *changes, enum run_kind kind,
				  const struct change *change)
{
	struct change_run *run = calloc(1, sizeof(*run));

	if (!run) {
		change_refuse(changes, change);
		return NULL;
	}
	run->changes = changes;
	run->kind = kind;
	run->change = *change;
	origin_take(run, change->origin);
	run->change.origin = run->origin;
	if (change->is_continuation)
		list_push_front(&changes->waiting, &run->node);
	else if (change->is_of_host)
		list_push_back(&changes->hosts, &run->node);
	else
		list_push_back(&changes->waiting, &run->node);
	changes_pump(changes);
	return run;
}

static void source_take(struct change_run *run, const char *source_hash)
{
	run->has_source = source_hash != NULL;
	if (source_hash)
		text_copy(run->source_hash, sizeof(run->source_hash), source_hash);
}

void changes_start(struct changes *changes, struct start *start, const struct change *change)
{
	struct change_run *run = run_add(changes, RUN_START, change);

	if (!run)
		return;
	run->next = start->config;
	run->before = start->kept;
	run->result.diff = start->diff;
	source_take(run, start->source_hash);
	*start = (struct start){0};
}

void changes_submit(struct changes *changes, const struct change *change, const char *source_hash)
{
	struct change_run *run = run_add(changes, RUN_CHANGE, change);

	if (run)
		source_take(run, source_hash);
}

static int nothing_edit(json_t *document, void *arg, struct config_errors *errors)
{
	return 0;
}

void changes_rebuild(struct changes *changes, const struct change *change)
{
	struct change again = *change;

	again.edit = nothing_edit;
	again.is_forced = true;
	changes_submit(changes, &again, NULL);
}

bool changes_cancel(struct changes *changes, const struct change *change)
{
	struct change_result result = {.res = -ECANCELED, .generation = changes->generation};

	list_for_each(node, &changes->hosts) {
		struct change_run *run = list_entry(node, struct change_run, node);

		if (run->kind != RUN_CHANGE || run->change.edit != change->edit ||
		    run->change.arg != change->arg)
			continue;
		list_remove(&run->node);
		config_errors_add(&result.errors, "the change was cancelled before it began");
		change_tell_ended(&run->change, &result);
		run->change.done(run->change.arg, &result);
		run_free(run);
		return true;
	}
	return false;
}

void changes_submit_private(struct changes *changes, const struct daemon_private *private,
			    const struct change *change)
{
	struct change_run *run = run_add(changes, RUN_PRIVATE, change);

	if (!run)
		return;
	run->has_private = private != NULL;
	if (private) {
		run->private = *private;
		uuid_random(&run->private.uuid);
	}
}

void changes_stop(struct changes *changes)
{
	changes->is_stopping = true;
	reactor_timer_cancel(&changes->trim_timer);
	answers_end(changes);
	media_registry_stop_waiting(changes->options.registry);
	changes_refresh_go(changes);
	changes_pump(changes);
}

bool changes_are_idle(const struct changes *changes)
{
	return !changes->current && list_empty(&changes->waiting) && list_empty(&changes->hosts);
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
	list_init(&changes->hosts);
	list_init(&changes->draining);
	list_init(&changes->refreshes);
	list_init(&changes->refreshing);
	reactor_timer_init(options->control, &changes->trim_timer, trim_due);
	*ret_changes = changes;
	return 0;
}

void changes_destroy(struct changes *changes)
{
	struct list *node;

	if (!changes)
		return;
	changes->is_stopping = true;
	changes->options.registry = NULL; /* may have ended already */
	reactor_timer_cancel(&changes->trim_timer);
	answers_end(changes);
	while ((node = waiting_pop(changes)) != NULL) {
		changes->current = list_entry(node, struct change_run, node);
		/* Marked as posted, because a pump must not run on a reactor that has stopped. */
		changes->is_pump_posted = true;
		run_begin(changes->current);
	}
	while ((node = list_pop_front(&changes->draining)) != NULL)
		free(list_entry(node, struct drain, node));
	config_free(changes->config);
	free(changes);
}
