/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports changes of a medium's size or health. A medium raises an event on any thread; the
 * listener receives it on its own reactor. Events raised before the listener ran are merged into
 * one call.
 *
 * The channel belongs to the store that raises events. The channel outlives the medium while its
 * message is in flight.
 */
#include "media/event.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

struct media_channel {
	struct media_listener *listener; /* set on the listener's thread; NULL: no listener */
	struct media *media;             /* the medium passed to media_listen */
	struct reactor *reactor;
	_Atomic unsigned pending; /* not 0: the message is in flight */
	bool is_closed;           /* the medium is closed: the message frees the channel */
	struct reactor_msg msg;
};

static void channel_told(struct reactor_msg *msg)
{
	struct media_channel *channel = container_of(msg, struct media_channel, msg);
	unsigned events = atomic_exchange(&channel->pending, 0);
	struct media_listener *listener = channel->listener;

	if (channel->is_closed)
		free(channel);
	else if (listener)
		listener->told(listener, channel->media, events);
}

void media_tell(struct media *media, unsigned events)
{
	struct media_channel *channel = atomic_load(&media->channel);

	if (channel && atomic_fetch_or(&channel->pending, events) == 0)
		reactor_post(channel->reactor, &channel->msg, channel_told);
}

int media_listen(struct media *media, struct media_listener *listener)
{
	struct media *store = media_store(media);
	struct media_channel *channel = atomic_load(&store->channel);

	if (!channel) {
		channel = calloc(1, sizeof(*channel));
		if (!channel)
			return -ENOMEM;
	}
	CHECK(!channel->listener);
	channel->listener = listener;
	channel->media = media;
	channel->reactor = listener->reactor;
	atomic_store(&store->channel, channel);
	return 0;
}

void media_unlisten(struct media *media)
{
	struct media_channel *channel = atomic_load(&media_store(media)->channel);

	if (channel)
		channel->listener = NULL;
}

void media_channel_close(struct media *media)
{
	struct media_channel *channel = atomic_exchange(&media->channel, NULL);

	if (!channel)
		return;
	if (atomic_load(&channel->pending) == 0)
		free(channel);
	else
		channel->is_closed = true;
}
