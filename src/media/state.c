/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of a medium per reactor: made on the reactor at the first use, freed on the reactor when
 * the medium is closed. Media without state (ops->state_bytes is 0) do not use this file.
 *
 * Each reactor reads and writes only its own entry. The closing thread reads all entries after the
 * last I/O, for which the owner of the medium has waited.
 */
#include "media/state.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Indices of reactors are below this: lib/instance.c, daemon/daemon.c. */
#define REACTOR_INDEX_MAX 1024

struct media_state {
	struct media_states *all;
	struct reactor *reactor;
	_Alignas(16) uint8_t own[]; /* ops->state_bytes long */
};

struct media_states {
	struct media *media;
	struct media_state *by_index[REACTOR_INDEX_MAX];
	/* Used while the medium is closed. */
	unsigned next;
	struct reactor *home;
	void (*detached)(struct media *media);
	struct reactor_msg msg;
};

/* The first reactors that use a medium may run this at the same time. */
static struct media_states *states_of(struct media *media)
{
	struct media_states *states = atomic_load(&media->states);
	struct media_states *found = NULL;

	if (states)
		return states;
	states = calloc(1, sizeof(*states));
	if (!states)
		return NULL;
	states->media = media;
	if (atomic_compare_exchange_strong(&media->states, &found, states))
		return states;
	free(states);
	return found;
}

void *media_state(struct media *media, struct reactor *reactor)
{
	struct media_states *states = states_of(media);
	unsigned index = reactor_index(reactor);
	struct media_state *state;

	CHECK(index < REACTOR_INDEX_MAX && media->ops->state_bytes > 0);
	if (!states)
		return NULL;
	if (states->by_index[index])
		return states->by_index[index]->own;
	state = calloc(1, sizeof(*state) + media->ops->state_bytes);
	if (!state)
		return NULL;
	state->all = states;
	state->reactor = reactor;
	if (media->ops->attach && media->ops->attach(media, reactor, state->own) < 0) {
		free(state);
		return NULL;
	}
	states->by_index[index] = state;
	return state->own;
}

/* ---- the end -------------------------------------------------------------------------------- */

static void detach_next(struct reactor_msg *msg);

/* On the reactor of the state. */
void media_detached(void *own)
{
	struct media_state *state = container_of(own, struct media_state, own);
	struct media_states *states = state->all;

	free(state);
	reactor_post(states->home, &states->msg, detach_next);
}

static void detach_here(struct reactor_msg *msg)
{
	struct media_states *states = container_of(msg, struct media_states, msg);
	struct media_state *state = states->by_index[states->next - 1];
	struct media *media = states->media;

	if (media->ops->detach)
		media->ops->detach(media, state->reactor, state->own);
	else
		media_detached(state->own);
}

/* On the reactor that closes the medium. Detaches one reactor after another. */
static void detach_next(struct reactor_msg *msg)
{
	struct media_states *states = container_of(msg, struct media_states, msg);
	struct media *media = states->media;
	void (*detached)(struct media * media) = states->detached;

	while (states->next < REACTOR_INDEX_MAX) {
		const struct media_state *state = states->by_index[states->next++];

		if (state) {
			reactor_post(state->reactor, &states->msg, detach_here);
			return;
		}
	}
	free(states);
	atomic_store(&media->states, NULL);
	detached(media);
}

void media_states_end(struct media *media, void (*detached)(struct media *media))
{
	struct media_states *states = atomic_load(&media->states);

	if (!states) {
		detached(media);
		return;
	}
	states->home = reactor_current();
	CHECK(states->home);
	states->detached = detached;
	states->next = 0;
	detach_next(&states->msg);
}
