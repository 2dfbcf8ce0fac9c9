/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a tree of media by its spec: the children of each medium first, all at the same time, then
 * the medium itself. Each driver may finish at once or later. When one fails, the openings still in
 * progress are cancelled, and media that are already open are undone and closed.
 *
 * Control thread. A node is freed after its parent has its result.
 */
#include "media/driver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct opening_node {
	struct media_opening opening;
	struct media_open_request *request; /* of the whole tree */
	struct opening_node *parent;        /* NULL for the root */
	unsigned index;                     /* in the parent's children */
	struct opening_node **below;        /* children in progress; NULL: this child has ended */
	unsigned missing; /* number of children in progress, plus 1 while they are started */
	bool is_late;     /* its driver returned -EINPROGRESS */
	char *text;       /* becomes media->spec */
	int res;          /* the first failure below; 0: none */
};

struct open_tree {
	struct media_spec spec;
	struct opening_node *root;
	bool is_cancelled;
};

static void node_ended(struct opening_node *node, struct media *media, int res);

/* Children that are NULL have not opened. */
static void children_discard(struct media **children, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (children[i])
			(void)media_undo(children[i]);
		media_close(children[i]);
	}
}

static void node_free(struct opening_node *node)
{
	free(node->opening.children);
	free(node->below);
	free(node->text);
	free(node);
}

/* Opens the node's own medium. All children have ended. */
static void node_open_own(struct opening_node *node)
{
	struct media_error *error = &node->request->error;
	struct media *media = NULL;
	int res = node->res;

	if (res == 0 && node->request->tree->is_cancelled)
		res = media_fail(error, -ECANCELED, "the opening was cancelled");
	if (res == 0)
		res = node->opening.spec->driver->open(&node->opening, &media, error);
	if (res == -EINPROGRESS)
		node->is_late = true;
	else
		node_ended(node, media, res);
}

/* Cancels the opening of this node and of the nodes below. The last child to end frees the node,
 * unless the caller still has a count in node->missing. */
static void node_cancel(struct opening_node *node)
{
	const struct media_driver *driver = node->opening.spec->driver;

	if (node->is_late) {
		if (driver->cancel)
			driver->cancel(&node->opening);
		return;
	}
	node->missing++; /* keeps the node until all children are cancelled */
	for (unsigned i = 0; i < node->opening.child_count; i++) {
		if (node->below[i])
			node_cancel(node->below[i]);
	}
	if (--node->missing == 0)
		node_open_own(node);
}

static void node_child_ended(struct opening_node *node, int res)
{
	if (res < 0 && node->res == 0) {
		node->res = res;
		node_cancel(node);
	}
	if (--node->missing == 0)
		node_open_own(node);
}

static int node_create(struct media_open_request *request, const struct media_spec *spec,
		       struct opening_node **ret_node)
{
	struct opening_node *node = calloc(1, sizeof(*node));

	if (!node)
		return -ENOMEM;
	node->request = request;
	node->opening.spec = spec;
	node->opening.child_count = spec->child_count;
	node->missing = 1;
	node->text = strdup(spec->text);
	node->opening.children = calloc(spec->child_count + 1, sizeof(struct media *));
	node->below = calloc(spec->child_count + 1, sizeof(struct opening_node *));
	if (!node->text || !node->opening.children || !node->below) {
		node_free(node);
		return -ENOMEM;
	}
	*ret_node = node;
	return 0;
}

static void node_start(struct opening_node *node)
{
	const struct media_spec *spec = node->opening.spec;

	for (unsigned i = 0; i < spec->child_count && node->res == 0; i++) {
		struct opening_node *child;
		int res = node_create(node->request, &spec->children[i], &child);

		if (res < 0) {
			node->res = media_fail(&node->request->error, res, "out of memory");
			node_cancel(node);
			break;
		}
		child->parent = node;
		child->index = i;
		node->below[i] = child;
		node->missing++;
		node_start(child);
	}
	node_child_ended(node, 0);
}

static void tree_ended(struct media_open_request *request, struct media *media, int res)
{
	struct open_tree *tree = request->tree;

	request->tree = NULL;
	request->media = media;
	media_spec_free(&tree->spec);
	free(tree);
	request->done(request, res);
}

static void node_ended(struct opening_node *node, struct media *media, int res)
{
	struct media_open_request *request = node->request;
	struct opening_node *parent = node->parent;

	if (res == 0) {
		media->spec = node->text;
		node->text = NULL;
		media->children = node->opening.children;
		media->child_count = node->opening.child_count;
		media->is_wrapper = node->opening.spec->is_wrapper;
		node->opening.children = NULL;
	} else {
		media = NULL;
		children_discard(node->opening.children, node->opening.child_count);
	}
	if (parent) {
		parent->opening.children[node->index] = media;
		parent->below[node->index] = NULL;
	}
	node_free(node);
	if (parent)
		node_child_ended(parent, res);
	else
		tree_ended(request, media, res);
}

void media_opening_end(struct media_opening *opening, struct media *media, int res,
		       const struct media_error *error)
{
	struct opening_node *node = container_of(opening, struct opening_node, opening);

	CHECK(node->is_late && res != -EINPROGRESS);
	node->is_late = false;
	if (res < 0 && error && node->request->error.text[0] == '\0')
		node->request->error = *error;
	node_ended(node, media, res);
}

/* Terms that are not part of the spec apply to the store under the wrappers. Files below the store
 * get no terms and would be opened as new files: created or grown. */
static int terms_apply(struct media_spec *spec, const struct media_terms *terms,
		       struct media_error *ret_error)
{
	struct media_spec *store = media_spec_store(spec);

	store->is_shared = terms->is_shared;
	store->member = terms->member;
	store->known = terms->known;
	store->is_recreated = terms->is_recreated;
	store->must_not_wait = terms->must_not_wait;
	store->told = terms->told;
	if (terms->is_recreated && terms->known && store->size_bytes == 0)
		store->size_bytes = terms->known->size_bytes;
	if (store->kind != MEDIA_SPEC_FILE && terms->is_shared)
		return media_fail(ret_error, -EINVAL,
				  "only a file or a block device can be shared");
	if ((terms->known || terms->is_recreated) && media_spec_is_over_files(spec))
		return media_fail(
			ret_error, -EOPNOTSUPP,
			"%.90s: was served before, and the files of a medium made of other "
			"media cannot be checked against what was served; check them, then "
			"remove the medium and add it again",
			spec->text);
	return 0;
}

void media_open_begin(struct media_open_request *request, const char *spec,
		      const struct media_terms *terms)
{
	struct open_tree *tree = calloc(1, sizeof(*tree));
	int res;

	request->media = NULL;
	request->error.text[0] = '\0';
	request->tree = tree;
	if (!tree) {
		request->done(request, media_fail(&request->error, -ENOMEM, "out of memory"));
		return;
	}
	res = media_spec_parse(spec, &tree->spec, &request->error);
	if (res == 0)
		res = terms_apply(&tree->spec, terms, &request->error);
	if (res == 0) {
		res = node_create(request, &tree->spec, &tree->root);
		if (res < 0)
			media_fail(&request->error, res, "out of memory");
	}
	if (res < 0)
		tree_ended(request, NULL, res);
	else
		node_start(tree->root);
}

void media_open_cancel(struct media_open_request *request)
{
	request->tree->is_cancelled = true;
	node_cancel(request->tree->root);
}

/* ---- for callers that do not wait --------------------------------------------------------- */

struct prompt_open {
	struct media_open_request request;
	bool has_ended;
	bool is_abandoned;
	int res;
};

static void prompt_ended(struct media_open_request *request, int res)
{
	struct prompt_open *prompt = container_of(request, struct prompt_open, request);

	prompt->has_ended = true;
	prompt->res = res;
	if (!prompt->is_abandoned)
		return;
	if (request->media)
		(void)media_undo(request->media);
	media_close(request->media);
	free(prompt);
}

int media_open_on(const char *spec, const struct media_terms *terms, struct media **ret_media,
		  struct media_error *ret_error)
{
	struct prompt_open *prompt = calloc(1, sizeof(*prompt));
	int res;

	if (!prompt)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	prompt->request.done = prompt_ended;
	media_open_begin(&prompt->request, spec, terms);
	if (!prompt->has_ended) {
		prompt->is_abandoned = true;
		media_open_cancel(&prompt->request);
		return media_fail(ret_error, -EAGAIN,
				  "%.160s opens asynchronously, which is not possible here", spec);
	}
	res = prompt->res;
	if (res < 0 && ret_error)
		*ret_error = prompt->request.error;
	if (res == 0)
		*ret_media = prompt->request.media;
	free(prompt);
	return res;
}

int media_open(const char *spec, struct media **ret_media, struct media_error *ret_error)
{
	const struct media_terms terms = {0};

	return media_open_on(spec, &terms, ret_media, ret_error);
}

int media_open_shared(const char *spec, unsigned member, struct media **ret_media,
		      struct media_error *ret_error)
{
	const struct media_terms terms = {.is_shared = true, .member = member};

	return media_open_on(spec, &terms, ret_media, ret_error);
}
