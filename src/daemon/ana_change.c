/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves an ANA group of a port to another state, in one or two steps. See ana_change.h.
 *
 * Control reactor only. Each step is a change of the desired state (daemon/daemon.h). The second
 * step leaves the document as it is, so its change is forced. The second step does not wait for
 * another change under way, which may take longer than ANATT: daemon/change_refresh.c. A transition
 * stays in the registry's list from the first edit until its last callback was called.
 */
#include "daemon/ana_change.h"

#include "base/log.h"
#include "config/document.h"
#include "daemon/change.h"
#include "daemon/media_registry.h"
#include "target/barrier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(BARRIER_END_S < TARGET_ANA_TRANSITION_S, "the second step waits for nothing else");

struct transition {
	struct daemon *daemon;
	struct ana_change change;
	struct list node;               /* in the registry's list of ANA transitions */
	enum ana_state before;          /* the group's state in the document before the change */
	bool is_under_way;              /* this transition keeps the group in `change` */
	bool is_waiting;                /* the first step is done; waits for on_drained */
	bool is_owed_drained;           /* on_drained is still to be called */
	bool is_over;                   /* done was called */
	struct changes_refresh refresh; /* the second step, while another change is under way */
	struct change_result result;
};

static bool state_refuses(enum ana_state state)
{
	return state == ANA_INACCESSIBLE || state == ANA_PERSISTENT_LOSS;
}

static void transition_free_when_over(struct transition *transition)
{
	if (!transition->is_over || transition->is_owed_drained)
		return;
	list_remove(&transition->node);
	free(transition->result.diff);
	free(transition);
}

static void transition_end(struct transition *transition)
{
	transition->is_under_way = false;
	transition->is_over = true;
	transition->change.done(transition->change.arg, &transition->result);
	transition_free_when_over(transition);
}

/* ---- the document -----------------------------------------------------------------------------
 */

/* Sets the group's state in the document. An optimized group is not listed. */
static int document_set(json_t *document, const struct ana_change *change, enum ana_state to,
			enum ana_state *ret_before, struct config_errors *errors)
{
	size_t index;
	json_t *port = document_port(document, change->port_id, NULL);
	json_t *list = json_object_get(port, "ana");
	json_t *entry = document_find_number(list, "group", change->group, &index);
	const char *was = json_string_value(json_object_get(entry, "state"));

	if (!port) {
		config_errors_add(errors, "there is no port %u", change->port_id);
		return -ENOENT;
	}
	if (!was || !config_ana_state_parse(was, ret_before))
		*ret_before = ANA_OPTIMIZED;
	if (entry)
		json_array_remove(list, index);
	if (to == ANA_OPTIMIZED)
		return 0;
	if (!json_is_array(list)) {
		list = json_array();
		if (!list || json_object_set_new(port, "ana", list) < 0)
			return -ENOMEM;
	}
	return json_array_append_new(list,
				     json_pack("{s:I, s:s}", "group", (json_int_t)change->group,
					       "state", ana_state_name(to))) < 0
		       ? -ENOMEM
		       : 0;
}

/* ---- the second step --------------------------------------------------------------------------
 */

static int edit_nothing(json_t *document, void *arg, struct config_errors *errors)
{
	return 0;
}

static int edit_back(json_t *document, void *arg, struct config_errors *errors)
{
	struct transition *transition = arg;
	enum ana_state now;

	return document_set(document, &transition->change, transition->before, &now, errors);
}

static void went_back(void *arg, struct change_result *result)
{
	struct transition *transition = arg;

	if (result->res < 0)
		log_error("control",
			  "port %u, ANA group %u: cannot set the requested state, nor return to "
			  "the former one: %s",
			  transition->change.port_id, transition->change.group,
			  strerror(-result->res));
	transition_end(transition);
}

static void second_done(void *arg, struct change_result *result)
{
	struct transition *transition = arg;
	const struct change back = {
		.edit = edit_back,
		.done = went_back,
		.arg = transition,
		.origin = "an ANA transition that failed",
		.is_forced = true,
	};

	/* At the end of the process (-ESHUTDOWN) the document already has the final state. */
	if (result->res == 0 || result->res == -ESHUTDOWN) {
		if (result->res == 0)
			transition->result.generation = result->generation;
		transition_end(transition);
		return;
	}
	transition->result.res = result->res;
	transition->result.errors = result->errors;
	daemon_change(transition->daemon, &back);
}

static void second_refreshed(void *arg, int res)
{
	struct transition *transition = arg;
	struct change_result result = {.res = res,
				       .generation = daemon_generation(transition->daemon)};

	if (res < 0)
		config_errors_add(&result.errors, "%s", strerror(-res));
	second_done(transition, &result);
}

/* The commands that were running have ended, or the wait for them has timed out. */
static void second_begin(struct transition *transition)
{
	const struct change change = {
		.edit = edit_nothing,
		.done = second_done,
		.arg = transition,
		.origin = "the end of an ANA transition",
		.is_forced = true,
	};

	transition->is_waiting = false;
	/* Another change of this group overtook this transition: the state of that change
	 * counts. */
	if (!transition->is_under_way) {
		transition_end(transition);
		return;
	}
	transition->is_under_way = false;
	transition->refresh.done = second_refreshed;
	transition->refresh.arg = transition;
	if (!daemon_refresh(transition->daemon, &transition->refresh))
		daemon_change(transition->daemon, &change);
}

/* A command that hangs in its medium is known to have begun before the transition. Hosts that
 * were notified of the transition wait for the command's response, or reset the controller (ADR
 * 0028). */
static void on_drained(void *arg, int res)
{
	struct transition *transition = arg;

	transition->is_owed_drained = false;
	if (transition->is_waiting && res < 0)
		log_warn("control",
			 "port %u, ANA group %u: commands from before the transition have hung in "
			 "their medium for %u s; the transition continues without waiting for them",
			 transition->change.port_id, transition->change.group, BARRIER_END_S);
	if (transition->is_waiting)
		second_begin(transition);
	else
		transition_free_when_over(transition);
}

static struct target_scope transition_scope(void *arg)
{
	const struct transition *transition = arg;

	return (struct target_scope){.port_id = transition->change.port_id,
				     .ana_group = transition->change.group};
}

/* ---- the first step ---------------------------------------------------------------------------
 */

/* Returns another transition that keeps this group in `change`, or NULL. */
static struct transition *others_find(struct transition *transition)
{
	struct list *all = media_registry_ana_transitions(daemon_registry(transition->daemon));

	list_for_each(node, all) {
		struct transition *other = list_entry(node, struct transition, node);

		if (other != transition && other->is_under_way &&
		    other->change.port_id == transition->change.port_id &&
		    other->change.group == transition->change.group)
			return other;
	}
	return NULL;
}

static int first_edit(json_t *document, void *arg, struct config_errors *errors)
{
	struct transition *transition = arg;
	const struct ana_change *change = &transition->change;
	int res;

	if (change->to == ANA_CHANGE) {
		config_errors_add(errors, "\"change\" is a transitional state and cannot be "
					  "requested; choose another state");
		return -EINVAL;
	}
	if (change->group < 1 || change->group > CONFIG_ANA_GROUP_MAX) {
		config_errors_add(errors, "there is no ANA group %u; groups are 1 to %u",
				  change->group, CONFIG_ANA_GROUP_MAX);
		return -ENOENT;
	}
	res = document_set(document, change, change->to, &transition->before, errors);
	if (res < 0 || change->is_dry_run)
		return res;
	transition->is_under_way =
		state_refuses(change->to) &&
		(!state_refuses(transition->before) || others_find(transition) != NULL);
	return 0;
}

/* Here and not with the answer: a transition that begins before the answer is not overtaken. */
static void first_ended(void *arg, const struct change_result *result)
{
	struct transition *transition = arg;
	struct transition *overtaken;

	while (result->res == 0 && !transition->change.is_dry_run &&
	       (overtaken = others_find(transition)))
		overtaken->is_under_way = false;
}

static void first_done(void *arg, struct change_result *result)
{
	struct transition *transition = arg;

	transition->result = *result;
	result->diff = NULL;
	if (result->res < 0 || !transition->is_under_way) {
		/* on_drained is not called after a failed change. */
		if (result->res < 0)
			transition->is_owed_drained = false;
		transition_end(transition);
		return;
	}
	transition->is_waiting = true;
}

int ana_change(struct daemon *daemon, const struct ana_change *change)
{
	struct transition *transition = calloc(1, sizeof(*transition));
	bool may_wait = state_refuses(change->to) && !change->is_dry_run;
	const struct change first = {
		.edit = first_edit,
		.done = first_done,
		.ended = first_ended,
		.drained = may_wait ? on_drained : NULL,
		.scope = transition_scope,
		.arg = transition,
		.expected_generation = change->expected_generation,
		.is_dry_run = change->is_dry_run,
		.origin = change->origin,
		.is_forced = may_wait,
	};

	if (!transition)
		return -ENOMEM;
	transition->daemon = daemon;
	transition->change = *change;
	transition->is_owed_drained = may_wait;
	list_push_back(media_registry_ana_transitions(daemon_registry(daemon)), &transition->node);
	daemon_change(daemon, &first);
	return 0;
}

/* ---- beside the document ----------------------------------------------------------------------
 */

void ana_transitions_apply(const struct list *transitions, struct port *port)
{
	list_for_each(node, transitions) {
		const struct transition *transition = list_entry(node, struct transition, node);

		if (!transition->is_under_way || transition->change.port_id != port->id)
			continue;
		for (unsigned i = 0; i < port->ana_count; i++)
			if (port->ana[i].group == transition->change.group &&
			    state_refuses(port->ana[i].state))
				port->ana[i].state = ANA_CHANGE;
	}
}

void ana_transitions_forget(struct list *transitions)
{
	struct list *node;

	while ((node = list_pop_front(transitions))) {
		struct transition *transition = list_entry(node, struct transition, node);

		free(transition->result.diff);
		free(transition);
	}
}
