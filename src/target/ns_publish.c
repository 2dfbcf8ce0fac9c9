/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes the views of a namespace. See ns_publish.h.
 *
 * Runs on the control reactor, except the swap of a view, which every reactor does between two
 * turns. A namespace has one publication under way at a time; later ones wait in line. A replaced
 * view is freed when the last reactor has stopped using it.
 */
#include "target/ns_publish.h"

#include "target/judge_again.h"
#include "target/local.h"

#include <errno.h>
#include <stdlib.h>

/* A view on its way to one reactor. */
struct publication_step {
	struct reactor_msg msg;
	struct publication *publication;
	struct ns_local *local;
};

struct publication {
	struct list node; /* in live->publications */
	struct target *target;
	struct ns_live *live;     /* holds a reference */
	struct ns_view *view;     /* the new one */
	struct ns_view *replaced; /* freed at the end */
	void (*done)(void *arg);
	void *arg;
	atomic_uint steps_missing;
	struct reactor_msg msg;
	struct publication_step steps[];
};

static void publication_begin(struct publication *publication);

/* On the control reactor: every reactor uses the new view. */
static void publication_finished(struct reactor_msg *msg)
{
	struct publication *publication = container_of(msg, struct publication, msg);
	struct ns_live *live = publication->live;
	struct list *line = ns_live_publications(live);

	list_remove(&publication->node);
	ns_view_free(publication->replaced);
	if (!list_empty(line))
		publication_begin(list_entry(line->next, struct publication, node));
	publication->done(publication->arg);
	free(publication);
	ns_live_put(live);
}

/* On a data reactor, between two turns. */
static void publication_step_here(struct reactor_msg *msg)
{
	struct publication_step *step = container_of(msg, struct publication_step, msg);
	struct publication *publication = step->publication;
	struct ns_local *locals = ns_live_locals(publication->live);
	struct local *local = &publication->target->locals[step->local - locals];

	step->local->view = publication->view;
	local->rules++;
	local_cut_off_fenced(local, locals);
	if (atomic_fetch_sub(&publication->steps_missing, 1) == 1)
		reactor_post(publication->target->control, &publication->msg, publication_finished);
}

static void publication_begin(struct publication *publication)
{
	struct target *target = publication->target;
	struct ns_live *live = publication->live;
	unsigned count = ns_live_local_count(live);

	publication->replaced = ns_live_replace_view(live, publication->view);
	atomic_init(&publication->steps_missing, count);
	for (unsigned i = 0; i < count; i++) {
		struct publication_step *step = &publication->steps[i];

		step->publication = publication;
		step->local = &ns_live_locals(live)[i];
		reactor_post(target->locals[i].reactor, &step->msg, publication_step_here);
	}
}

int ns_live_publish_prepare(struct target *target, struct ns_live *live,
			    struct publication **ret_publication)
{
	unsigned count = ns_live_local_count(live);
	struct publication *publication =
		calloc(1, sizeof(*publication) + count * sizeof(publication->steps[0]));

	CHECK(count == target->local_count);
	if (!publication)
		return -ENOMEM;
	if (ns_view_build(live, &publication->view) != 0) {
		free(publication);
		return -ENOMEM;
	}
	publication->target = target;
	publication->live = ns_live_get(live);
	list_init(&publication->node);
	*ret_publication = publication;
	return 0;
}

void ns_live_publish_drop(struct publication *taken_publication)
{
	ns_view_free(taken_publication->view);
	ns_live_put(taken_publication->live);
	free(taken_publication);
}

void ns_live_publish_start(struct publication *taken_publication, void (*done)(void *arg),
			   void *arg)
{
	struct list *line = ns_live_publications(taken_publication->live);
	bool is_first = list_empty(line);

	taken_publication->done = done;
	taken_publication->arg = arg;
	list_push_back(line, &taken_publication->node);
	if (is_first)
		publication_begin(taken_publication);
}
