/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the C library allocates internally becomes memory of the simulated process: the trees
 * of search.h and the text of open_memstream. The linker's --wrap does not reach into the library,
 * so both are reimplemented here with malloc and free, which sim_memory.c wraps. One thread.
 *
 * The trees are not balanced: those of a simulated process are small.
 */
#include "base/check.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*order_fn)(const void *a, const void *b);

/* Callers see the node as a pointer to its key: the key comes first. */
struct tree_node {
	const void *key;
	struct tree_node *below[2];
};

void *__wrap_tsearch(const void *key, void **root, order_fn order);
void *__wrap_tfind(const void *key, void *const *root, order_fn order);
void *__wrap_tdelete(const void *key, void **root, order_fn order);
void __wrap_tdestroy(void *root, void (*free_key)(void *key));

/* The pointer to the node of this key, or where it would be. */
static struct tree_node **tree_place(const void *key, struct tree_node **place, order_fn order)
{
	while (*place) {
		int side = order(key, (*place)->key);

		if (side == 0)
			break;
		place = &(*place)->below[side > 0];
	}
	return place;
}

void *__wrap_tsearch(const void *key, void **root, order_fn order)
{
	struct tree_node **place = tree_place(key, (struct tree_node **)root, order);

	if (!*place) {
		*place = calloc(1, sizeof(**place));
		if (*place)
			(*place)->key = key;
	}
	return *place;
}

void *__wrap_tfind(const void *key, void *const *root, order_fn order)
{
	struct tree_node *first = *root;

	return first ? *tree_place(key, &first, order) : NULL;
}

/* Any non-NULL pointer if the key was found; callers may not rely on more. */
void *__wrap_tdelete(const void *key, void **root, order_fn order)
{
	struct tree_node **place = tree_place(key, (struct tree_node **)root, order);
	struct tree_node *node = *place;
	struct tree_node **next;

	if (!node)
		return NULL;
	if (!node->below[0] || !node->below[1]) {
		*place = node->below[0] ? node->below[0] : node->below[1];
		free(node);
		return root;
	}
	/* The node of the next larger key takes its place. */
	next = &node->below[1];
	while ((*next)->below[0])
		next = &(*next)->below[0];
	node->key = (*next)->key;
	node = *next;
	*next = node->below[1];
	free(node);
	return root;
}

void __wrap_tdestroy(void *root, void (*free_key)(void *key))
{
	struct tree_node *node = root;

	if (!node)
		return;
	__wrap_tdestroy(node->below[0], free_key);
	__wrap_tdestroy(node->below[1], free_key);
	free_key((void *)node->key);
	free(node);
}

/* ---- streams into memory ----------------------------------------------------------------------
 */

FILE *__real_open_memstream(char **text, size_t *text_bytes);
FILE *__wrap_open_memstream(char **text, size_t *text_bytes);
int __real_fclose(FILE *stream);
int __wrap_fclose(FILE *stream);
void __real_free(void *memory);

#define STREAMS_MAX 4 /* open at a time, in one turn */

static struct {
	FILE *stream; /* NULL: free */
	char **text;
	size_t *text_bytes;
} streams[STREAMS_MAX];

FILE *__wrap_open_memstream(char **text, size_t *text_bytes)
{
	unsigned i = 0;

	while (streams[i].stream) {
		i++;
		CHECK(i < STREAMS_MAX);
	}
	streams[i].stream = __real_open_memstream(text, text_bytes);
	streams[i].text = text;
	streams[i].text_bytes = text_bytes;
	return streams[i].stream;
}

int __wrap_fclose(FILE *stream)
{
	int res = __real_fclose(stream);

	for (unsigned i = 0; i < STREAMS_MAX; i++) {
		char **text = streams[i].text;
		char *copy;

		if (streams[i].stream != stream)
			continue;
		streams[i].stream = NULL;
		copy = malloc(*streams[i].text_bytes + 1);
		if (copy)
			memcpy(copy, *text, *streams[i].text_bytes + 1);
		else
			res = EOF;
		__real_free(*text);
		*text = copy;
	}
	return res;
}
