/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The desired state of a target as a validated struct, from one JSON document
 * (docs/config-schema.json, weft.json(5)) or from the flags of `weft serve`. Reading opens nothing:
 * snapshot_from_config opens the media and makes the snapshot for target_apply.
 *
 * Control thread only. All problems are collected, each with its place in the document and the
 * remedy, so that one run of --check shows them all.
 */
#ifndef WEFT_CONFIG_CONFIG_H
#define WEFT_CONFIG_CONFIG_H

#include "base/net_addr.h"
#include "config/members.h"
#include "target/target.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_ERRORS_MAX       20
#define CONFIG_ERROR_TEXT_BYTES 512
#define CONFIG_NSID_MAX         TARGET_NSID_MAX
#define CONFIG_ANA_GROUP_MAX    (TARGET_ANA_GROUP_LOST - 1)
#define CONFIG_SUBSYSTEMS_MAX   1024
#define CONFIG_PORTS_MAX        (TARGET_PORTS_MAX - 1) /* one port is reserved for discovery */
#define CONFIG_HOSTS_MAX        1024
#define CONFIG_DEFAULT_PORT     4420
#define CONFIG_DISCOVERY_PORT   8009
#define CONFIG_DEFAULT_NS_BYTES "1G"
#define CONFIG_DEFAULT_NS_FILE  "default.img"
#define CONFIG_DOCUMENT_VERSION 1
#define CONFIG_FILE_BYTES_MAX   (16 * 1024 * 1024)
#define CONFIG_DEFAULT_MODEL    "weft"
#define CONFIG_DEFAULT_ADDRESS  "127.0.0.1"
#define CONFIG_POOL_FOLDER_MAX  3900 /* bytes, leaving room for a file name */

struct config_errors {
	unsigned count; /* all errors found; only the first CONFIG_ERRORS_MAX have a text */
	char texts[CONFIG_ERRORS_MAX][CONFIG_ERROR_TEXT_BYTES];
};

void config_errors_add(struct config_errors *errors, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Prints one line for each error, then the number of omitted errors. */
void config_errors_print(const struct config_errors *errors, FILE *out);
/* Writes the same to the log, each line prefixed with `what`. */
void config_errors_log(const char *what, const struct config_errors *errors);

struct config_ns {
	uint32_t nsid;
	char *media;      /* spec, see media/media.h */
	struct uuid uuid; /* nil until config_identify; so is nguid */
	uint8_t nguid[16];
	bool has_made_identity; /* config_identify made uuid or nguid */
	bool is_read_only;
	uint32_t ana_group;
	/* Which hosts see the namespace: all hosts of the subsystem, or only `hosts` if is_masked.
	 * hidden_from excludes hosts in both cases. */
	bool is_masked;
	char (*hosts)[NVME_NQN_BYTES];
	unsigned host_count;
	char (*hidden_from)[NVME_NQN_BYTES];
	unsigned hidden_count;
	enum ns_write_protect write_protect; /* see config_end_power_cycle */
	bool is_protect_given;               /* the document has the key write_protect */
	bool is_private;                     /* must be masked, with one host at most */
	char *label;                         /* NULL: none */
	bool is_clustered;                   /* other members serve the namespace too */
};

struct config_subsystem {
	char nqn[NVME_NQN_BYTES];
	char serial[NVME_SERIAL_BYTES + 1]; /* empty until config_identify */
	char model[NVME_MODEL_BYTES + 1];
	bool allows_any_host;
	char (*hosts)[NVME_NQN_BYTES];
	unsigned host_count;
	uint32_t rights_of_all; /* bits of enum host_right, for every host that may connect */
	struct host_rights *host_rights; /* ascending NQN; additional rights of these hosts */
	unsigned host_rights_count;
	struct config_ns *namespaces; /* ascending NSID */
	unsigned ns_count;
	char *pool_folder; /* for namespaces that hosts create; NULL: hosts cannot create any */
	uint64_t pool_bytes;
	bool is_implied; /* added by the program, not in the document */
};

struct config_port {
	uint16_t id;
	enum discovery_transport transport; /* one of this build */
	struct net_addr listen;
	char advertise[NET_ADDR_TEXT_BYTES];
	char (*subsystems)[NVME_NQN_BYTES]; /* that the port offers, unless offers_all is set */
	unsigned subsystem_count;
	bool offers_all;
	bool is_discovery_only;
	bool is_implied;             /* added by the program, not in the document */
	struct ana_group_state *ana; /* ascending by group */
	unsigned ana_count;
	enum zero_copy zero_copy;
	uint32_t zero_copy_min_bytes;
};

/* The other members that serve clustered namespaces. The document has no secret, only the name of
 * its file, which is read when the target starts (config_cluster_read_secret). */
struct config_cluster {
	struct peers_config peers;
	char *secret_file;
	bool may_kill; /* default for peers with a "unix:" address */
};

struct config {
	struct config_subsystem *subsystems; /* ascending NQN */
	unsigned subsystem_count;
	struct config_port *ports; /* ascending id */
	unsigned port_count;
	struct target_limits limits;
	struct config_cluster *cluster; /* NULL: no cluster */
};

/* Flags of `weft serve`: one subsystem with one namespace per spec, offered on every listener. */
struct config_flags {
	const char *nqn; /* NULL: TARGET_DEFAULT_NQN */
	const char *const *listens;
	unsigned listen_count; /* 0: 127.0.0.1:4420 */
	const char *const *namespaces;
	unsigned ns_count;
	const char *const *hosts;
	unsigned host_count;       /* 0: any host */
	const char *const *rights; /* HOST=RIGHT[,RIGHT]..., or any=... */
	unsigned rights_count;
};

/* Return 0, or -EINVAL/-errno with at least one error. *ret_config is NULL on failure. Identities
 * that the document leaves out stay empty until config_identify. */
int config_load_file(const char *path, struct config **ret_config, struct config_errors *errors);
int config_load_text(const char *text, size_t len_bytes, struct config **ret_config,
		     struct config_errors *errors);
int config_from_flags(const struct config_flags *flags, struct config **ret_config,
		      struct config_errors *errors);
/* The flags as a document with only the keys that were given. A new reference; NULL with at least
 * one error. */
json_t *config_flags_document(const struct config_flags *flags, struct config_errors *errors);
void config_free(struct config *config);

/* Reads the secret into cluster->peers.secret. 0, or -errno with an error. Only the owner (this
 * user or root) may have access to the file. */
int config_cluster_read_secret(struct config_cluster *cluster, struct config_errors *errors);

const struct config_subsystem *config_find_subsystem(const struct config *config, const char *nqn);
/* Adds a TCP port for discovery alone, under an unused ID. False: the address overlaps a configured
 * port, there are too many ports, or out of memory. */
bool config_add_discovery_port(struct config *config, const struct net_addr *addr);
/* Adds a subsystem with one namespace that only host_nqn may use, offered on port_id, where the
 * namespace is optimized. 0, -EEXIST, -ENOENT or -ENOMEM. */
int config_add_private_subsystem(struct config *config, const char *nqn, const char *host_nqn,
				 const char *media_spec, const struct uuid *uuid, uint16_t port_id);
void config_remove_subsystem(struct config *config, const char *nqn);

/* Parses the names that ana_state_name returns. */
bool config_ana_state_parse(const char *text, enum ana_state *ret_state);
/* "none", "protected", "until-power-cycle", "permanent". */
const char *config_write_protect_name(enum ns_write_protect protect);
bool config_write_protect_parse(const char *text, enum ns_write_protect *ret_protect);

/*
 * Fills in missing identities: from the same namespace in `known` (the configuration in force or
 * saved; NULL: none), else random. 0, or -errno with an error; one error for every two namespaces
 * that share an identity.
 */
int config_identify(struct config *config, const struct config *known,
		    struct config_errors *errors);
/* Removes UUIDs that earlier versions derived for memory media from a saved document. */
void config_forget_derived(json_t *document);

/*
 * The whole document with every default and identity, so that reading it back gives the same
 * configuration on any machine. Leaves out the identities that memory media got for this run. NULL
 * when out of memory.
 */
json_t *config_to_json(const struct config *config);
/* Writes the document, with the identities of memory media, because edits find namespaces by
 * UUID. */
json_t *config_to_edit_json(const struct config *config);
/* One element as in config_to_edit_json. */
json_t *config_subsystem_to_json(const struct config_subsystem *subsystem);
json_t *config_ns_to_json(const struct config_ns *ns);
/* One namespace as in config_to_json, without the identity that a memory medium got for this
 * run. */
json_t *config_ns_to_document(const struct config_ns *ns);
json_t *config_port_to_json(const struct config *config, const struct config_port *port);
int config_load_json(const json_t *document, struct config **ret_config,
		     struct config_errors *errors);
/* The differences for people, one line each: "+ subsystem NQN", "~ namespace NQN/3: size ...".
 * Empty if equal. The caller frees the string; NULL when out of memory. */
char *config_diff(const struct config *from, const struct config *to);
/* Parses rights of hosts, separated by commas. "all" is every right, "none" is no right.
 * *ret_problem is the wrong word; the caller frees it. */
#define CONFIG_RIGHTS_ANY "any"
int config_rights_split(const char *text, uint32_t *ret_rights, char **ret_problem);
/* Rights as a JSON list of names; NULL when out of memory. */
json_t *config_rights_to_json(uint32_t rights);
/* The document's "rights": an object with a list for each host, or for "any". NULL when out of
 * memory. */
json_t *config_subsystem_rights_to_json(const struct config_subsystem *subsystem);

/*
 * Checks changes that the configuration in force forbids. A namespace, known by its UUID, must not
 * shrink. Permanent write protection, and protection until the next start, must be lifted
 * explicitly with "none", not by leaving the key out. 0, or -errno with at least one error. `from`
 * NULL: everything is allowed.
 */
int config_check_transition(const struct config *from, const struct config *to,
			    struct config_errors *errors);
/* Ends write protection "until-power-cycle", which lasts for one run of the target. Call on a
 * document before it becomes the first configuration of a run. */
void config_end_power_cycle(json_t *document);
/*
 * Merges `more`, a document as its author wrote it, into `document`, in which every element has its
 * name (see config/config_merge.c). 0, or -errno with at least one error.
 */
int config_merge(json_t *document, const json_t *more, struct config_errors *errors);
/* Converts a document saved by nvmetcli, the kernel target's tool. `notes` gets what is not carried
 * over. NULL with at least one error. */
json_t *config_import_nvmetcli(const json_t *saved, struct config_errors *errors,
			       struct config_errors *notes);

#endif
