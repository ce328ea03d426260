// Generated from the routes of edge/api by `npm run client`: change those, not this file.

/** A body that is sent as it is. A stream is sent while it is read, and cannot be sent twice. */
export type RawBody = string | Uint8Array | Blob | ReadableStream<Uint8Array>;

/** The process is alive. */
export type Health = {
  /** The action. */
  status: "ok";
};

/** A browser's session, which replaces the key. */
export type Session = {
  /** Whether the server requires a key. */
  asksForKey: boolean;
  /** Whether the caller has a session, or needs none. */
  active: boolean;
  /** When the session ends. */
  expiresAt?: string;
  /** What the session may do; absent without one. */
  role?: "admin" | "platform" | "tenant" | "reader";
  /** The tenants that the session reaches; absent for all. */
  tenants?: string[];
  /** The host of the OpenID provider at which people can log in. */
  provider?: string;
};

/** A key of the API without its text. */
export type Key = {
  /** Public; the part of the key between `tk_` and the next `_`. */
  id: string;
  /** What it is for. */
  name: string;
  /** What it may do. */
  role: "admin" | "platform" | "tenant" | "reader";
  /** The tenants that it reaches; absent if it reaches all. */
  tenants?: string[];
  /** The workloads that it reaches; absent if it reaches all. */
  workloads?: string[];
  /** How many requests a second it may make of each replica. */
  requestsPerSecond?: number;
  /** When it was created. */
  createdAt: string;
  /** When it ends; absent if it does not expire. */
  expiresAt?: string;
};

/** A new key. */
export type CreatedKey = {
  /** Public; the part of the key between `tk_` and the next `_`. */
  id: string;
  /** What it is for. */
  name: string;
  /** What it may do. */
  role: "admin" | "platform" | "tenant" | "reader";
  /** The tenants that it reaches; absent if it reaches all. */
  tenants?: string[];
  /** The workloads that it reaches; absent if it reaches all. */
  workloads?: string[];
  /** How many requests a second it may make of each replica. */
  requestsPerSecond?: number;
  /** When it was created. */
  createdAt: string;
  /** When it ends; absent if it does not expire. */
  expiresAt?: string;
  /** The key, for `Authorization: Bearer`; no other answer has it. */
  key: string;
};

/** What sessions and snapshots used. */
export type Usage = {
  /** The tenant, by `tenant`. */
  tenantId?: string;
  /** The workload, by `workload`. */
  workload?: string;
  /** The day of UTC, by `day`. */
  day?: string;
  /** Sessions that ended. */
  sessions: number;
  /** Time of all instances together. */
  seconds: number;
  /** CPU limits of the workloads, times seconds. */
  vcpuSeconds: number;
  /** Memory limits in MiB, times seconds. */
  mibSeconds: number;
  /** Bytes of snapshots, with older versions, times hours. */
  snapshotByteHours: number;
  /** The sessions by how their instance was found. */
  sources: Record<string, number>;
};

/** Instances and claims by phase, and the storage used by snapshots and its limits. */
export type Stats = {
  /** Number of instances. */
  instances: {
    /** Number of instances. */
    total: number;
    /** Number in each phase that occurs. */
    byPhase: Record<string, number>;
  };
  /** Number of claims. */
  claims: {
    /** Number of claims. */
    total: number;
    /** Number in each phase that occurs. */
    byPhase: Record<string, number>;
  };
  /** Storage used by snapshots, up to a few minutes old; absent if unknown. */
  snapshots?: {
    /** Number of snapshots; each older version counts. */
    archives: number;
    /** Their total bytes. */
    bytes: number;
  };
  /** Storage limits of snapshots with older versions; absent if there are none. */
  snapshotLimits?: {
    /** Limit in bytes per tenant. */
    tenantBytes?: number;
    /** Limit in bytes of all tenants of a workload. */
    workloadBytes?: number;
  };
};

/** A declarative description of a container. */
export type WorkloadSpec = {
  /** Version of the workload, for people. */
  version?: string;
  /** The container's image: exactly one of ref and dockerfile. */
  image: {
    /** Image in a registry. */
    ref?: string;
    /** Path of a build file in the build context; the image is built from it in the cluster. */
    dockerfile?: string;
    /**
     * Source of the build's files: exactly one of configMapRef and git; by default the archive uploaded with PUT
     * /api/v1/workloads/{name}/context.
     */
    context?: {
      /** ConfigMap in the workload's namespace; each key is a file of the context. */
      configMapRef?: {
        /** Its name. */
        name: string;
      };
      /** A folder of a Git repository. */
      git?: {
        /** HTTPS address of the repository, without credentials. */
        url: string;
        /**
         * Branch, tag or commit. A name is resolved when the image is built, and is not watched: set the annotation
         * tenancy.dev/rebuild to build again.
         */
        ref?: string;
        /** Folder in the repository. */
        path?: string;
        /**
         * Secret in the namespace of builds: the key token contains the token, the key host the only host that
         * receives it.
         */
        secretRef?: {
          /** Its name. */
          name: string;
        };
      };
    };
    /** Build arguments; never for secrets, since an image shows them. */
    args?: Record<string, string>;
    /**
     * When nodes pull the image. When absent: Always for the tag latest, IfNotPresent for other tags and for
     * digests.
     */
    pullPolicy?: "Always" | "IfNotPresent" | "Never";
    /**
     * Whether nodes that may run the workload's pods pull the image before a pod needs it, a few nodes at a time;
     * status.images says which have it. Without effect under pullPolicy Never. The operator needs
     * TENANCY_WATCH_NODES (docs/how-to/pull-images-ahead.md). When absent, they do not.
     */
    prePull?: boolean;
    /**
     * Secrets in the workload's namespace with the logins of registries, for ref. The pods then do not use those of
     * the ServiceAccount default.
     */
    pullSecrets?: {
      /** Its name. */
      name: string;
    }[];
  };
  /** Resources of each instance, as limits and, without requests, as requests. */
  resources?: {
    /** CPU count; 1 without vcpus and milliCpus. */
    vcpus?: number;
    /** CPU in thousandths, in place of vcpus: 250 is a quarter of a CPU. */
    milliCpus?: number;
    /** Memory in MB. */
    memoryMb?: number;
    /** Disk in GB (ephemeral-storage), for the overlay directories, logs and all else that is written. */
    diskGb?: number;
    /**
     * What a node must have free for an instance, where that is less than its limit. When absent, it is the limit,
     * divided by the operator's overcommit.
     */
    requests?: {
      /** CPU in thousandths. */
      milliCpus?: number;
      /** Memory in MB. */
      memoryMb?: number;
    };
    /** Extended resources of nodes by name, such as nvidia.com/gpu; each as request and limit. */
    extended?: Record<string, number>;
  };
  /** What the container may reach and where it listens. */
  network?: {
    /**
     * What the container may reach: nothing, DNS and HTTPS (only the allowlist, if set), or everything except cloud
     * metadata services.
     */
    access?: "none" | "restricted" | "unrestricted";
    /** Domains that the container may reach over HTTPS when access is restricted. */
    allowlist?: string[];
    /** Headers with secret values that the proxy sidecar adds to requests when access is restricted. */
    credentials?: {
      /** Domain whose requests get the headers; a leading *. matches every name below it. */
      domain: string;
      /** Headers to set. */
      headers: {
        /** Name of the header. */
        name: string;
        /** Source of the value. */
        valueFrom: {
          /** The Secret, in the service's namespace, with the header's value. */
          secretKeyRef: {
            /** Name of the Secret. */
            name: string;
            /** Key within the Secret. */
            key: string;
          };
        };
      }[];
    }[];
    /** Ports on which the container listens; the first is the endpoint's port. */
    ports?: number[];
    /** Names of ports, for the pods' monitors and for the claims' Services. */
    portNames?: Record<string, number>;
    /**
     * Who may reach the container through the front door: no one, callers with the API key, callers with a signed
     * link too, or everyone.
     */
    expose?: "none" | "key" | "link" | "public";
  };
  /** When an idle claim is released, and what happens to its data. */
  idle?: {
    /** Seconds without activity until the claim is released; never by default. */
    timeoutSeconds?: number;
    /**
     * What happens to the tenant's data when the claim is released as idle: hibernate saves it, destroy discards
     * this session's. A requested release always saves it.
     */
    action?: "hibernate" | "destroy";
    /**
     * Whether the instance counts as used while a process runs that the API started in its background. The pod is
     * asked when its idle time is over.
     */
    countBackgroundProcesses?: boolean;
  };
  /** The part of the filesystem that outlives an instance. */
  filesystem?: {
    /** Directories that a release saves for each tenant; none inside another. */
    overlayDirs?: string[];
    /** Lets the program write its in-memory data before each attempt to save the files. */
    preSave?: {
      /** Command that runs in the workload's container as its user. */
      command: string[];
      /** Seconds until it is killed and counts as failed. */
      timeoutSeconds?: number;
      /**
       * What its failure does: Fail results in ReleaseFailed, and everything is retried; Continue saves the files
       * anyway.
       */
      onError?: "Fail" | "Continue";
    };
    /**
     * Saves the files while the program runs, instead of stopping it first. The container runtime then starts the
     * program, and a deleted pod is not saved.
     */
    saveWhileRunning?: boolean;
    /**
     * Seconds between checkpoints: the files of a session that goes on are saved so that it has them after the loss
     * of its pod. 0 for none.
     */
    checkpointSeconds?: number;
    /**
     * Seconds that a pod waits for its files to be saved when somebody else deletes or evicts it, or drains its
     * node.
     */
    saveGraceSeconds?: number;
  };
  /**
   * Directories with the platform's files, the same for every tenant. Tenants' own files belong in
   * filesystem.overlayDirs.
   */
  volumes?: {
    /** Absolute path of a directory in the container. It is read-only, except for emptyDir. */
    mountPath: string;
    /** Files from a ConfigMap. */
    configMap?: {
      /** Its name. */
      name: string;
      /** The keys that become files; all of them, each named as its key, when absent. */
      items?: {
        /** The key. */
        key: string;
        /** Name of its file. */
        path: string;
      }[];
      /** Permissions of the files as a decimal number; 420 (0644 in octal) when absent, 365 for 0555. */
      defaultMode?: number;
    };
    /** Files from a Secret. */
    secret?: {
      /** Its name. */
      secretName: string;
      /** The keys that become files; all of them, each named as its key, when absent. */
      items?: {
        /** The key. */
        key: string;
        /** Name of its file. */
        path: string;
      }[];
      /** Permissions of the files as a decimal number; 420 (0644 in octal) when absent, 365 for 0555. */
      defaultMode?: number;
    };
    /**
     * A PersistentVolumeClaim with the label tenancy.dev/use=workload, for models and datasets: every instance
     * reads the same files.
     */
    persistentVolumeClaim?: {
      /** Its name. */
      claimName: string;
    };
    /**
     * A directory in memory, new with each instance and never saved. What is in it counts as memory of the
     * instance.
     */
    emptyDir?: {
      /** Its size in MB. */
      sizeMb: number;
    };
    /** The files of an image. It needs the feature gate ImageVolume of Kubernetes 1.33. */
    image?: {
      /** The image. */
      reference: string;
      /** When nodes pull it. When absent: Always for the tag latest, IfNotPresent for other tags and for digests. */
      pullPolicy?: "Always" | "IfNotPresent" | "Never";
    };
  }[];
  /**
   * How to determine that the container is healthy. Without it, an instance is ready when its first port accepts
   * connections, or, without ports, when its program has run for 2 s.
   */
  health?: {
    /**
     * When an instance is ready: Healthy when its program is, Running as soon as it runs. Running suits sandboxes,
     * whose programs answer later or not at all. A program that starts before its claim and has no probe has to run
     * for 2 s all the same.
     */
    readyWhen?: "Healthy" | "Running";
    /** Seconds between probes. */
    intervalSeconds?: number;
    /** Consecutive failures until the container is unhealthy. */
    unhealthyThreshold?: number;
    /** A GET request to which a healthy container responds with 200 to 399. */
    httpGet?: {
      /** Path of the probe. */
      path?: string;
      /** Port of the probe; the endpoint's port when absent. */
      port?: number;
    };
    /** A port on which a healthy container accepts connections, where it is not the first port. */
    tcpSocket?: {
      /** The port. */
      port: number;
    };
    /** A command in the container that ends with 0, within 4 s, if the container is healthy. */
    exec?: {
      /** The command. It runs as the container's user, with its environment but not that of the claim. */
      command: string[];
    };
  };
  /** Program of the container. */
  entrypoint?: {
    /** Command instead of the image's own. */
    cmd?: string;
    /** Arguments instead of the image's own. */
    args?: string[];
    /** Environment variables; never for secrets, which belong in network.credentials. */
    env?: Record<string, string>;
    /**
     * Environment variables from ConfigMaps and Secrets, the same for every tenant, whose programs can read them.
     * Of two equal names the later one is taken, and env before these.
     */
    envFrom?: {
      /** Text in front of each name. */
      prefix?: string;
      /** A ConfigMap in the workload's namespace. */
      configMapRef?: {
        /** Its name. */
        name: string;
      };
      /** A Secret in the workload's namespace. */
      secretRef?: {
        /** Its name. */
        name: string;
      };
    }[];
    /** Absolute working directory. */
    workdir?: string;
    /**
     * When the program of a warm pod starts: before a claim takes the pod, or when a claim has taken it and its
     * files are restored. OnClaim needs cmd, or an image whose own command the operator can read.
     */
    start?: "Warm" | "OnClaim";
    /**
     * How a program that runs already is told of a claim, and of what the claim brings, which is in
     * /run/tenancy/claim. A failed call is made again; the claim is Active when one has succeeded.
     */
    onClaim?: {
      /** A command that has to exit with 0. The claim is at its standard input, in JSON. */
      exec?: {
        /** Command that runs in the workload's container as its user. */
        command: string[];
      };
      /** A POST request that has to be answered with 200 to 299. Its body is the claim, in JSON. */
      httpPost?: {
        /** Path of the request. */
        path: string;
        /** Port of the request; the endpoint's port when absent. */
        port?: number;
      };
      /** Seconds until the call is ended and has failed. */
      timeoutSeconds?: number;
    };
    /**
     * Seconds from when a node takes a pod until it must be ready, or the claim fails; TENANCY_START_TIMEOUT of the
     * operator when absent. For programs that load for long.
     */
    startTimeoutSeconds?: number;
    /** Seconds between SIGTERM and SIGKILL when the program is stopped before its files are saved. */
    stopGraceSeconds?: number;
  };
  /**
   * Whether each claim gets a Service named after it, which leads to its pod while it is Active. The Service has a
   * cluster IP and is not headless: pod IPs are reused by other tenants and must not be cached; the Service's own
   * IP is not reused.
   */
  service?: boolean;
  /**
   * Whether pods get the tools for processes and files by the API although nothing else needs them; they add an
   * init container, which delays a cold start by about a second. Pods with filesystem.overlayDirs,
   * entrypoint.onClaim or entrypoint.start OnClaim always have them.
   */
  tools?: boolean;
  /** RuntimeClass of the pods, for stronger isolation such as gVisor or Kata. */
  runtimeClassName?: string;
  /** On which nodes the pods run, in the words of Kubernetes. */
  scheduling?: {
    /** Labels that a node must have, all of them. */
    nodeSelector?: Record<string, string>;
    /** Taints of nodes that the pods tolerate. */
    tolerations?: {
      /** Key of the taint. */
      key: string;
      /** Whether the taint's value counts; Equal when absent. */
      operator?: "Equal" | "Exists";
      /** Value of the taint, for Equal. */
      value?: string;
      /** Effect of the taint; every effect when absent. */
      effect?: "NoSchedule" | "PreferNoSchedule" | "NoExecute";
      /** Seconds that a pod stays on a node that gets a taint NoExecute; for good when absent. */
      tolerationSeconds?: number;
    }[];
    /** What nodes must or should be, and which pods of the workload are there. */
    affinity?: {
      /** On which nodes pods run, by the labels of the nodes. */
      nodeAffinity?: {
        /** Nodes that pods may run on. */
        requiredDuringSchedulingIgnoredDuringExecution?: {
          /** Terms, of which a node must match at least one. */
          nodeSelectorTerms: {
            /** What the node's labels must be, all of it. */
            matchExpressions?: {
              /** Label of the node. */
              key: string;
              /** How the label compares with the values. */
              operator: "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt";
              /** Values to compare with; none for Exists and DoesNotExist. */
              values?: string[];
            }[];
            /** What the node's name must be, all of it. */
            matchFields?: {
              /** Field of the node. */
              key: "metadata.name";
              /** How the field compares with the value. */
              operator: "In" | "NotIn";
              /** One value. */
              values: string[];
            }[];
          }[];
        };
        /** Nodes that pods should run on. */
        preferredDuringSchedulingIgnoredDuringExecution?: {
          /** How much it counts against the other preferences. */
          weight: number;
          /** What a node must be, all of it; a term without an entry matches no node. */
          preference: {
            /** What the node's labels must be, all of it. */
            matchExpressions?: {
              /** Label of the node. */
              key: string;
              /** How the label compares with the values. */
              operator: "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt";
              /** Values to compare with; none for Exists and DoesNotExist. */
              values?: string[];
            }[];
            /** What the node's name must be, all of it. */
            matchFields?: {
              /** Field of the node. */
              key: "metadata.name";
              /** How the field compares with the value. */
              operator: "In" | "NotIn";
              /** One value. */
              values: string[];
            }[];
          };
        }[];
      };
      /** Near which other pods of the workload its pods run. */
      podAffinity?: {
        /** What must hold for each pod. */
        requiredDuringSchedulingIgnoredDuringExecution?: {
          /** Label of nodes: nodes with the same value are one place. */
          topologyKey: string;
          /** Which of the workload's own pods count; all of them by default, and no other pods. */
          labelSelector?: {
            /** Labels that a pod must have. */
            matchLabels?: Record<string, string>;
            /** What a pod's labels must be, all of it. */
            matchExpressions?: {
              /** Label of the pod. */
              key: string;
              /** How the label compares with the values. */
              operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
              /** Values to compare with; none for Exists and DoesNotExist. */
              values?: string[];
            }[];
          };
        }[];
        /** What should hold for each pod. */
        preferredDuringSchedulingIgnoredDuringExecution?: {
          /** How much it counts against the other preferences. */
          weight: number;
          /** Pods of the workload in the same place. */
          podAffinityTerm: {
            /** Label of nodes: nodes with the same value are one place. */
            topologyKey: string;
            /** Which of the workload's own pods count; all of them by default, and no other pods. */
            labelSelector?: {
              /** Labels that a pod must have. */
              matchLabels?: Record<string, string>;
              /** What a pod's labels must be, all of it. */
              matchExpressions?: {
                /** Label of the pod. */
                key: string;
                /** How the label compares with the values. */
                operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
                /** Values to compare with; none for Exists and DoesNotExist. */
                values?: string[];
              }[];
            };
          };
        }[];
      };
      /** Away from which other pods of the workload its pods run. */
      podAntiAffinity?: {
        /** What must hold for each pod. */
        requiredDuringSchedulingIgnoredDuringExecution?: {
          /** Label of nodes: nodes with the same value are one place. */
          topologyKey: string;
          /** Which of the workload's own pods count; all of them by default, and no other pods. */
          labelSelector?: {
            /** Labels that a pod must have. */
            matchLabels?: Record<string, string>;
            /** What a pod's labels must be, all of it. */
            matchExpressions?: {
              /** Label of the pod. */
              key: string;
              /** How the label compares with the values. */
              operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
              /** Values to compare with; none for Exists and DoesNotExist. */
              values?: string[];
            }[];
          };
        }[];
        /** What should hold for each pod. */
        preferredDuringSchedulingIgnoredDuringExecution?: {
          /** How much it counts against the other preferences. */
          weight: number;
          /** Pods of the workload in the same place. */
          podAffinityTerm: {
            /** Label of nodes: nodes with the same value are one place. */
            topologyKey: string;
            /** Which of the workload's own pods count; all of them by default, and no other pods. */
            labelSelector?: {
              /** Labels that a pod must have. */
              matchLabels?: Record<string, string>;
              /** What a pod's labels must be, all of it. */
              matchExpressions?: {
                /** Label of the pod. */
                key: string;
                /** How the label compares with the values. */
                operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
                /** Values to compare with; none for Exists and DoesNotExist. */
                values?: string[];
              }[];
            };
          };
        }[];
      };
    };
    /** How evenly the workload's pods are spread over nodes or zones. */
    topologySpreadConstraints?: {
      /** By how many pods two places may differ. */
      maxSkew: number;
      /** Label of nodes: nodes with the same value are one place. */
      topologyKey: string;
      /** Whether a pod that would exceed it waits. */
      whenUnsatisfiable: "DoNotSchedule" | "ScheduleAnyway";
      /** Which of the workload's own pods count; all of them by default, and no other pods. */
      labelSelector?: {
        /** Labels that a pod must have. */
        matchLabels?: Record<string, string>;
        /** What a pod's labels must be, all of it. */
        matchExpressions?: {
          /** Label of the pod. */
          key: string;
          /** How the label compares with the values. */
          operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
          /** Values to compare with; none for Exists and DoesNotExist. */
          values?: string[];
        }[];
      };
      /** The least number of places; fewer count as places without pods. */
      minDomains?: number;
      /** Whether only nodes that nodeSelector and nodeAffinity allow count; Honor when absent. */
      nodeAffinityPolicy?: "Honor" | "Ignore";
      /** Whether only nodes whose taints are tolerated count; Ignore when absent. */
      nodeTaintsPolicy?: "Honor" | "Ignore";
    }[];
    /** PriorityClass of the pods. Pods of a higher one than the operator's and the edge's can take their place. */
    priorityClassName?: string;
    /** The scheduler that chooses nodes for the pods; the cluster's default one when absent. */
    schedulerName?: string;
  };
  /** Further labels of the pods, for monitoring and cost allocation. Keys that change pods are refused. */
  podLabels?: Record<string, string>;
  /** Further annotations of the pods, for log collectors and monitoring. Keys that change pods are refused. */
  podAnnotations?: Record<string, string>;
  /**
   * ServiceAccount of the pods, one of TENANCY_POD_SERVICE_ACCOUNTS of the operator. Its token is mounted: the
   * program of every tenant may do what the account may. When absent, pods have no token.
   */
  serviceAccountName?: string;
};

/** A declarative description of a container. */
export type Workload = {
  /** Name of the workload. */
  name: string;
  /** A declarative description of a container. */
  spec: WorkloadSpec;
  /** The operator's result. */
  status: {
    /** Phase of the workload. */
    phase: "Creating" | "Building" | "Ready" | "Error" | "Terminating";
    /** One word for programs, if something is wrong. */
    reason?: string;
    /** What to change. */
    message?: string;
    /** The image that was built last and that pods run, with its digest. */
    image?: string;
    /** The build of the spec's image: in progress, or the last one. */
    build?: {
      /** SHA-256 of all inputs of the image; absent while there is no context. */
      key?: string;
      /** Identifies the request: a digest of the spec's image and of the annotations on builds. */
      request?: string;
      /** State of the build; Pending waits for a slot (TENANCY_BUILD_CONCURRENCY), or for a retry. */
      state: "Pending" | "Building" | "Built" | "Failed";
      /** Why it failed or waits: one word for programs. */
      reason?: string;
      /** The same in sentences for people. */
      message?: string;
      /** When it was requested. */
      requestedAt?: string;
      /** When the build began. */
      startedAt?: string;
      /** When it ended. */
      finishedAt?: string;
      /** Digest of the image. */
      digest?: string;
      /** Steps of the build file. */
      steps?: number;
      /** Number of cached steps. */
      cached?: number;
      /** Git commit that was built. */
      commit?: string;
      /** How many attempts failed for a cause that may pass; each is followed by another. */
      tries?: number;
    };
    /** Which nodes have the image: only for a workload with image.prePull. */
    images?: {
      /** The image, as pods name it. */
      image: string;
      /** Number of nodes that may run the workload's pods. */
      nodes: number;
      /** Number of these nodes that have the image. */
      pulled: number;
      /** The first of them, by name. */
      pulledOn: string[];
      /** Nodes where the last try failed, the first by name. */
      failed: {
        /** Name of the node. */
        node: string;
        /** Why, in the kubelet's words. */
        message: string;
      }[];
      /** Why no image is pulled, if none is. */
      message?: string;
    };
  };
  /** When it was created. */
  createdAt: string;
};

/** Warm pods of one workload: a fixed number of them, or as many as its claims need. */
export type PoolSpec = {
  /** Name of the workload to keep ready. */
  workloadRef: string;
  /** Number of warm pods to keep; instead of maxSize. */
  size?: number;
  /** Most warm pods; the operator chooses how many. Instead of size. */
  maxSize?: number;
  /** With maxSize: fewest warm pods; 1 when absent. */
  minSize?: number;
  /** What the size is chosen for: exactly one of idlePercent, hitRate and p99Ms; hitRate 99 when absent. */
  target?: {
    /** Warm pods, as a percentage of all pods of the workload, claimed ones included. */
    idlePercent?: number;
    /** Percentage of claims that find a warm pod. */
    hitRate?: number;
    /** Milliseconds that 99 % of claims wait at most for a pod. */
    p99Ms?: number;
  };
  /** With maxSize: times from which on minSize is greater. */
  schedule?: {
    /** From when on: five fields, such as 0 8 * * 1-5. */
    cron: string;
    /** IANA name, such as Europe/Berlin; UTC when absent. */
    timezone?: string;
    /** Fewest warm pods from then on. */
    minSize: number;
  }[];
  /** With maxSize: seconds in which fewer pods are needed until the pool shrinks; 600 when absent. */
  scaleDownAfterSeconds?: number;
  /** Maximum number of pods that start at the same time. */
  maxFillConcurrency?: number;
};

/** Pods of a workload that are started before a tenant claims them. */
export type Pool = {
  /** Name of the pool. */
  name: string;
  /** Warm pods of one workload: a fixed number of them, or as many as its claims need. */
  spec: PoolSpec;
  /** The operator's result. */
  status: {
    /**
     * Filling until as many pods are ready as it aims for, Degraded while pods keep failing or are refused, Error
     * if no pod can be made.
     */
    phase: "Filling" | "Ready" | "Degraded" | "Error";
    /** Pods that can be claimed. */
    ready: number;
    /** Pods that are starting. */
    warming: number;
    /** Number of pods that the operator aims for. */
    desired?: number;
    /** Why the operator aims for this size; absent for a pool of fixed size. Written when the size changes. */
    scaling?: {
      /** One word for programs: what decides the size. */
      reason: string;
      /** A sentence for people. */
      message: string;
      /** Pods that spec.target needs, before any limit. */
      needed: number;
      /** Fewest pods now, by spec.minSize and spec.schedule. */
      minSize: number;
      /** Claims of the workload, in the last hour. */
      arrivalsPerMinute: number;
      /** Seconds from a pod's creation to its readiness. */
      refillSeconds?: number;
    };
    /** One word for programs, if something is wrong. */
    reason?: string;
    /** A sentence for people. */
    message?: string;
  };
  /** When it was created. */
  createdAt: string;
};

/**
 * State of a workload's image build: the build for the current spec, context and rebuild request. `image` is what
 * pods run until it has finished.
 */
export type Build = {
  /** Name of the workload. */
  workload: string;
  /** SHA-256 of all inputs of the image; absent while there is no context. */
  key?: string;
  /** Identifies the request: a digest of the spec's image and of the annotations on builds. */
  request?: string;
  /** State of the build; Pending waits for a slot (TENANCY_BUILD_CONCURRENCY), or for a retry. */
  state: "Pending" | "Building" | "Built" | "Failed";
  /** Why it failed or waits: one word for programs. */
  reason?: string;
  /** The same in sentences for people. */
  message?: string;
  /** When it was requested. */
  requestedAt?: string;
  /** When the build began. */
  startedAt?: string;
  /** When it ended. */
  finishedAt?: string;
  /** Digest of the image. */
  digest?: string;
  /** Steps of the build file. */
  steps?: number;
  /** Number of cached steps. */
  cached?: number;
  /** Git commit that was built. */
  commit?: string;
  /** How many attempts failed for a cause that may pass; each is followed by another. */
  tries?: number;
  /** SHA-256 of the last uploaded build context. */
  context?: string;
  /** The image that was built last and that pods run, with its digest. */
  image?: string;
};

/** A stored build context. */
export type Context = {
  /** SHA-256 of the upload in hexadecimal digits. */
  sha256: string;
  /** Size of the upload in bytes. */
  sizeBytes: number;
};

/** A snapshot of a tenant's overlay directories. */
export type Snapshot = {
  /** The tenant. */
  tenantId: string;
  /** The workload. */
  workloadRef: string;
  /** Path on the snapshots volume. */
  path: string;
  /** Of an older version: its name for `resume.version` of a claim. */
  version?: string;
  /** Bytes of the archive. */
  sizeBytes: number;
  /**
   * SHA-256 of the archive in hexadecimal digits; absent if the archive's metadata is lost, so that it cannot be
   * restored.
   */
  sha256?: string;
  /** When it was saved. */
  createdAt: string;
  /**
   * Why an older version is kept: `history` if a later session started from it, `replaced` if a session that did
   * not start from it took its place.
   */
  kept?: "history" | "replaced";
  /** `checkpoint` for an older version that was saved while its session was running; absent for other versions. */
  kind?: "checkpoint";
  /** The names that a person gave it: it stays as long as it has one. Absent without a name. */
  names?: string[];
};

/** A version of a snapshot of a tenant's overlay directories. */
export type SnapshotVersion = {
  /** The tenant. */
  tenantId: string;
  /** The workload. */
  workloadRef: string;
  /** Path on the snapshots volume. */
  path: string;
  /** Its name for `resume.version` of a claim. */
  version: string;
  /** Bytes of the archive. */
  sizeBytes: number;
  /** SHA-256 of the archive in hexadecimal digits. */
  sha256: string;
  /** When it was saved, or became the newest by a rollback or a copy. */
  createdAt: string;
  /** Whether a claim with `resume: true` restores it. */
  newest: boolean;
  /**
   * Why an older version is kept: `history` if a later session started from it, `replaced` if a session that did
   * not start from it took its place.
   */
  kept?: "history" | "replaced";
  /** `checkpoint` for an older version that was saved while its session was running; absent for other versions. */
  kind?: "checkpoint";
  /** The names that a person gave it: it stays as long as it has one. Absent without a name. */
  names?: string[];
};

/** A file, folder or link in a version of a snapshot. */
export type SavedFile = {
  /** Path in the pod without the leading slash. */
  path: string;
  /**
   * The path with percent-encoded bytes; only if the path is not UTF-8 or has a percent sign. Parameters take it in
   * place of `path`.
   */
  encodedPath?: string;
  /** What it is; each name of a file after the first is a `hardlink`. */
  type: "file" | "directory" | "symlink" | "hardlink";
  /** Bytes of a file; 0 for others. */
  sizeBytes: number;
  /** Permissions in octal digits; absent for a folder that the archive has no entry of. */
  mode?: string;
  /** Owner, as the container has it. */
  uid?: number;
  /** Group, as the container has it. */
  gid?: number;
  /** When its content last changed. */
  modifiedAt?: string;
  /** SHA-256 of a file's content in hexadecimal digits. */
  sha256?: string;
  /** What a link points at. */
  target?: string;
};

/** A difference between two versions of a snapshot. */
export type SavedChange = {
  /** Path in the pod without the leading slash. */
  path: string;
  /**
   * The path with percent-encoded bytes; only if the path is not UTF-8 or has a percent sign. Parameters take it in
   * place of `path`.
   */
  encodedPath?: string;
  /** What happened to it. */
  change: "added" | "changed" | "removed";
  /** As it was; absent if it was added. */
  before?: {
    /** What it is; each name of a file after the first is a `hardlink`. */
    type: "file" | "directory" | "symlink" | "hardlink";
    /** Bytes of a file; 0 for others. */
    sizeBytes: number;
    /** Permissions in octal digits; absent for a folder that the archive has no entry of. */
    mode?: string;
    /** Owner, as the container has it. */
    uid?: number;
    /** Group, as the container has it. */
    gid?: number;
    /** When its content last changed. */
    modifiedAt?: string;
    /** SHA-256 of a file's content in hexadecimal digits. */
    sha256?: string;
    /** What a link points at. */
    target?: string;
  };
  /** As it became; absent if it was removed. */
  after?: {
    /** What it is; each name of a file after the first is a `hardlink`. */
    type: "file" | "directory" | "symlink" | "hardlink";
    /** Bytes of a file; 0 for others. */
    sizeBytes: number;
    /** Permissions in octal digits; absent for a folder that the archive has no entry of. */
    mode?: string;
    /** Owner, as the container has it. */
    uid?: number;
    /** Group, as the container has it. */
    gid?: number;
    /** When its content last changed. */
    modifiedAt?: string;
    /** SHA-256 of a file's content in hexadecimal digits. */
    sha256?: string;
    /** What a link points at. */
    target?: string;
  };
};

/** A process that was started in an instance. */
export type Process = {
  /** Its number in the container. */
  pid: number;
  /** Program and arguments. */
  command: string[];
  /** The folder it was started in. */
  cwd: string;
  /** Whether it has a terminal. */
  tty: boolean;
  /** Whether it goes on without a connection. */
  background: boolean;
  /** When it was started. */
  startedAt: string;
  /** Whether it still runs. */
  state: "running" | "ended";
  /** When it ended. */
  endedAt?: string;
  /** Once it has ended, unless a signal ended it. */
  exitCode?: number;
  /** The signal that ended it, such as `SIGKILL`. */
  signal?: string;
  /** True if it was ended because its time was up. */
  timedOut?: boolean;
  /** Bytes it has written to standard output. */
  stdoutBytes: number;
  /** Bytes it has written to standard error. */
  stderrBytes: number;
  /** Standard output as text; not in lists and streams. */
  stdout?: string;
  /** Standard error as text; not in lists and streams. */
  stderr?: string;
  /** True if it has written more than the response has. */
  truncated?: boolean;
};

/** A file, folder or link in an instance, now. */
export type InstanceFile = {
  /** Path in the pod without the leading slash. */
  path: string;
  /**
   * The path with percent-encoded bytes; only if the path is not UTF-8 or has a percent sign. Parameters take it in
   * place of `path`.
   */
  encodedPath?: string;
  /** What it is; a device, a pipe or a socket is `other`. */
  type: "file" | "directory" | "symlink" | "other";
  /** Bytes of a file or of a link's target; 0 for folders. */
  sizeBytes: number;
  /** Permissions in octal digits. */
  mode: string;
  /** Owner, as the container has it. */
  uid: number;
  /** Group, as the container has it. */
  gid: number;
  /** When its content last changed. */
  modifiedAt: string;
  /** What a link points at. */
  target?: string;
  /** ETag of a file: another one if its content or its permissions have changed. */
  etag?: string;
  /** What an archive held; only in the answer to its upload. */
  unpacked?: {
    /** Files. */
    files: number;
    /** Folders that it names. */
    folders: number;
    /** Symbolic and hard links. */
    links: number;
    /** Bytes of all files. */
    bytes: number;
  };
};

/** The claim response object: a tenant's lease on an instance of a workload. */
export type Claim = {
  /** The tenant. */
  tenantId: string;
  /** Phase of the claim. */
  phase: "Pending" | "Active" | "Releasing" | "Released" | "ReleaseFailed" | "Error";
  /** Name of the pod, once there is one. */
  instanceId?: string;
  /** Where the instance listens. */
  endpoint?: {
    /** IP of the pod. */
    host: string;
    /** Port of the container. */
    port: number;
  };
  /** Zone of the node that the instance runs on; absent if the node has none, or if it is not known. */
  zone?: string;
  /** How the instance was found: in a pool or started cold, and whether files were restored. */
  source?: "existing" | "pool" | "pool+data" | "cold" | "cold+data";
  /** When the pod was bound. */
  claimedAt?: string;
  /** When the claim is released, even while it is in use; absent if it does not expire. */
  expiresAt?: string;
  /**
   * Labels of the claim's pods, where each key follows the prefix claim.tenancy.dev/. Not for secrets: everyone who
   * may read pods or events sees them.
   */
  labels?: Record<string, string>;
  /** The workload. */
  workloadRef: string;
  /** One word for programs, if something is wrong. */
  reason?: string;
  /** A sentence for people. */
  message?: string;
};

/** A signed address of a tenant's instance at the front door. */
export type Link = {
  /** The address with its token: it admits everyone who has it. */
  url: string;
  /** When the link and the browser sessions made with it end. */
  expiresAt: string;
  /** The tenant. */
  tenantId: string;
  /** The workload. */
  workloadRef: string;
};

/** A claim as shown in lists. */
export type ListedClaim = {
  /** The tenant. */
  tenantId: string;
  /** Phase of the claim. */
  phase: "Pending" | "Active" | "Releasing" | "Released" | "ReleaseFailed" | "Error";
  /** Name of the pod, once there is one. */
  instanceId?: string;
  /** Where the instance listens. */
  endpoint?: {
    /** IP of the pod. */
    host: string;
    /** Port of the container. */
    port: number;
  };
  /** Zone of the node that the instance runs on; absent if the node has none, or if it is not known. */
  zone?: string;
  /** How the instance was found: in a pool or started cold, and whether files were restored. */
  source?: "existing" | "pool" | "pool+data" | "cold" | "cold+data";
  /** When the pod was bound. */
  claimedAt?: string;
  /** When the claim is released, even while it is in use; absent if it does not expire. */
  expiresAt?: string;
  /**
   * Labels of the claim's pods, where each key follows the prefix claim.tenancy.dev/. Not for secrets: everyone who
   * may read pods or events sees them.
   */
  labels?: Record<string, string>;
  /** The workload. */
  workloadRef: string;
  /** One word for programs, if something is wrong. */
  reason?: string;
  /** A sentence for people. */
  message?: string;
  /** Name of the claim object. */
  name: string;
  /** Uid of the claim object: a later claim of the same name has another one. */
  uid: string;
  /** When it was created. */
  createdAt: string;
  /** Whether it requests the saved files. */
  resume: boolean;
  /** The requested version. */
  resumeVersion?: string;
};

/** A claim with the steps of its start and its Events. */
export type ClaimDetail = {
  /** The tenant. */
  tenantId: string;
  /** Phase of the claim. */
  phase: "Pending" | "Active" | "Releasing" | "Released" | "ReleaseFailed" | "Error";
  /** Name of the pod, once there is one. */
  instanceId?: string;
  /** Where the instance listens. */
  endpoint?: {
    /** IP of the pod. */
    host: string;
    /** Port of the container. */
    port: number;
  };
  /** Zone of the node that the instance runs on; absent if the node has none, or if it is not known. */
  zone?: string;
  /** How the instance was found: in a pool or started cold, and whether files were restored. */
  source?: "existing" | "pool" | "pool+data" | "cold" | "cold+data";
  /** When the pod was bound. */
  claimedAt?: string;
  /** When the claim is released, even while it is in use; absent if it does not expire. */
  expiresAt?: string;
  /**
   * Labels of the claim's pods, where each key follows the prefix claim.tenancy.dev/. Not for secrets: everyone who
   * may read pods or events sees them.
   */
  labels?: Record<string, string>;
  /** The workload. */
  workloadRef: string;
  /** One word for programs, if something is wrong. */
  reason?: string;
  /** A sentence for people. */
  message?: string;
  /** Name of the claim object. */
  name: string;
  /** Uid of the claim object: a later claim of the same name has another one. */
  uid: string;
  /** When it was created. */
  createdAt: string;
  /** Whether it requests the saved files. */
  resume: boolean;
  /** The requested version. */
  resumeVersion?: string;
  /** Time of the last API request for it; absent if it was not made by the API. */
  requestedAt?: string;
  /** When its release was requested, in whole seconds. */
  releasingSince?: string;
  /** When each step of the last start was reached, as recorded by edge and operator. */
  timeline?: {
    /** The step. */
    step: "Requested" | "Seen" | "Bound" | "Scheduled" | "FilesFrom" | "FilesTo" | "InputsGiven" | "ProgramStarted" | "OnClaimCalled" | "Started" | "Ready" | "Active" | "Error";
    /** Time in ISO 8601 with milliseconds. */
    at: string;
  }[];
  /** Aspects of the state, one of each type. */
  conditions?: {
    /** Aspect of the state, such as Ready. */
    type: string;
    /** Whether the condition holds. */
    status: "True" | "False" | "Unknown";
    /** Generation of the spec that it describes. */
    observedGeneration?: number;
    /** When the status last changed, RFC 3339. */
    lastTransitionTime: string;
    /** One word in CamelCase for programs. */
    reason: string;
    /** A sentence for people. */
    message: string;
  }[];
  /** SHA-256 of the archive that the session began with; none if the claim requested files and none were saved. */
  resumedFrom?: string;
  /** SHA-256 of the checkpoint that was restored into the instance, since the session lost the one before. */
  restoredFrom?: string;
  /** The archive with the files that the release saved. */
  snapshot?: {
    /** SHA-256 of the archive, in hexadecimal digits. */
    sha256: string;
    /** Size of the archive in bytes. */
    sizeBytes: number;
    /** When the files were saved, ISO 8601. */
    createdAt: string;
  };
  /**
   * What happened to the files at the release: saved in a new archive, unchanged since the newest archive, notSaved
   * because they were lost before, or discarded on request. Absent before the release, and if the workload saves no
   * files.
   */
  files?: "saved" | "unchanged" | "notSaved" | "discarded";
  /**
   * Its address at the front door, without a token; absent if the workload's `network.expose` is `none`, or no
   * front door is configured.
   */
  url?: string;
  /** With `url`: what admits a visitor, by the workload's `network.expose`. */
  expose?: "link" | "key" | "public";
  /** What it is waiting for, as a sentence. */
  waitsFor?: string;
  /** Events of the claim and its pod, oldest first. */
  events?: {
    /** The object that it is about. */
    about: "claim" | "instance";
    /** Normal or Warning. */
    type: string;
    /** One word for programs. */
    reason: string;
    /** A sentence for people. */
    message: string;
    /** Number of occurrences. */
    count?: number;
    /** When it last happened. */
    at: string;
  }[];
  /** Why there are no `events`, if they cannot be read. */
  eventsProblem?: string;
};

/** An Event stored by the cluster. */
export type ObjectEvent = {
  /** The object that it is about. */
  about: "claim" | "instance";
  /** Normal or Warning. */
  type: string;
  /** One word for programs. */
  reason: string;
  /** A sentence for people. */
  message: string;
  /** Number of occurrences. */
  count?: number;
  /** When it last happened. */
  at: string;
};

/** A tenant and its claims; empty for a tenant without claims. */
export type Tenant = {
  /** The tenant. */
  tenantId: string;
  /** Its claims, by workload. */
  claims: Claim[];
};

/** The limits that hold. */
export type QuotaLimits = {
  /** Claims that have an instance, or get one. */
  activeClaims?: {
    /** The limit. */
    limit: number;
    /** What is used. */
    used: number;
  };
  /** vCPUs of their instances together. */
  vcpus?: {
    /** The limit. */
    limit: number;
    /** What is used, in thousandths. */
    used: number;
  };
  /** Memory of their instances together, in MB. */
  memoryMb?: {
    /** The limit. */
    limit: number;
    /** What is used. */
    used: number;
  };
  /** Instances that the tenant gets in 60 seconds. */
  startsPerMinute?: {
    /** The limit. */
    limit: number;
  };
  /** MB of the tenant's saved files, with older versions. */
  snapshotMb?: {
    /** The limit. */
    limit: number;
    /** What is used. */
    used: number;
  };
  /** Requests through each replica of the edge: to the front door, and of the tenant's keys to the API. */
  requestsPerSecond?: {
    /** The limit. */
    limit: number;
  };
  /** Bytes of the bodies of these requests and of their answers. */
  bytesPerSecond?: {
    /** The limit. */
    limit: number;
  };
  /** WebSockets that are attached to processes, on each replica of the edge. */
  terminals?: {
    /** The limit. */
    limit: number;
  };
};

/** A tenant's quota, and what it uses of it. */
export type TenantLimits = {
  /** The tenant. */
  tenantId: string;
  /** The class that the limits come from. */
  class?: string;
  /** The limits that hold. */
  limits: QuotaLimits;
  /** What is wrong with the present quotas, so that earlier ones hold; only for the roles admin and platform. */
  problem?: string;
};

/** A tenant's saved files and quota. */
export type TenantSummary = {
  /** The tenant. */
  tenantId: string;
  /** Its saved files. */
  saved: {
    /** Workloads of which it has saved files. */
    workloads: number;
    /** Versions of them, the newest included. */
    versions: number;
    /** What they take together. */
    bytes: number;
  };
  /** The class that the limits come from. */
  class?: string;
  /** The limits that hold. */
  limits: QuotaLimits;
};

/** A managed pod. */
export type Instance = {
  /** Name of the pod, the {id} of instance paths. */
  name: string;
  /** Phase of the pod. */
  phase: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
  /** Whether its readiness probe passes. */
  ready: boolean;
  /** Number of restarts of its containers. */
  restarts: number;
  /** What keeps it from working: Kubernetes' own reason, such as CrashLoopBackOff or Unschedulable. */
  reason?: string;
  /** The tenant; absent while it is warm in a pool. */
  tenantId?: string;
  /** The workload. */
  workloadRef?: string;
  /** Address of the pod, once it has one. */
  ip?: string;
  /** All labels of the pod. */
  labels: Record<string, string>;
  /** When it was created. */
  createdAt: string;
  /** When it was last used; written at most once in a tenth of the idle timeout, or once a minute without one. */
  lastActivity?: string;
  /** When it was bound to its claim. */
  claimedAt?: string;
};

/** A managed pod with the fields of `detail=true`. */
export type InstanceDetail = {
  /** Name of the pod, the {id} of instance paths. */
  name: string;
  /** Phase of the pod. */
  phase: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
  /** Whether its readiness probe passes. */
  ready: boolean;
  /** Number of restarts of its containers. */
  restarts: number;
  /** What keeps it from working: Kubernetes' own reason, such as CrashLoopBackOff or Unschedulable. */
  reason?: string;
  /** The tenant; absent while it is warm in a pool. */
  tenantId?: string;
  /** The workload. */
  workloadRef?: string;
  /** Address of the pod, once it has one. */
  ip?: string;
  /** All labels of the pod. */
  labels: Record<string, string>;
  /** When it was created. */
  createdAt: string;
  /** When it was last used; written at most once in a tenth of the idle timeout, or once a minute without one. */
  lastActivity?: string;
  /** When it was bound to its claim. */
  claimedAt?: string;
  /** The node that it is on. */
  node?: string;
  /** Its containers, init containers first. */
  containers?: {
    /** Name of the container. */
    name: string;
    /** Its image. */
    image: string;
    /** Its state. */
    state: "waiting" | "running" | "terminated";
    /** Why it waits or has terminated, in one word. */
    reason?: string;
    /** The same as a sentence. */
    message?: string;
    /** Whether its readiness probe passes. */
    ready: boolean;
    /** Number of its restarts. */
    restarts: number;
    /** Its resource requests. */
    requests?: Record<string, string>;
    /** Its resource limits. */
    limits?: Record<string, string>;
  }[];
  /**
   * The directories that a release saves, fixed when the pod was made; empty if the pod has ended or is being
   * deleted.
   */
  savedDirs?: string[];
  /** Events of the pod, oldest first. */
  events?: ObjectEvent[];
  /** Why there are no `events`, if they cannot be read. */
  eventsProblem?: string;
};

/**
 * Claims of the last hour as recorded by one replica. Milliseconds are from the request to the pod, accurate to
 * about an eighth.
 */
export type ClaimHistory = {
  /** When the first step began: an hour ago, or when the replica started. */
  since: string;
  /** Name of the replica that answers; each has its own history. */
  replica: string;
  /** Length of a step; the last step is incomplete. */
  stepSeconds: number;
  /** By source of the pod. */
  sources: {
    /** How the pod was found. */
    source: "pool" | "pool+data" | "cold" | "cold+data";
    /** Claims that became Active. One number per step. */
    claims: number[];
    /** A number per step, or null. */
    p50Ms: (number | null)[];
    /** A number per step, or null. */
    p99Ms: (number | null)[];
    /** The whole recorded time. */
    hour: {
      /** Claims that became Active. */
      claims: number;
      /** Median. Null if there is no measurement. */
      p50Ms: number | null;
      /** 99th percentile. Null if there is no measurement. */
      p99Ms: number | null;
    };
  }[];
  /** Claims that ended in `Error`. One number per step. */
  errors: number[];
  /** Errors by reason, most frequent first. */
  reasons: {
    /** The claim's reason, or Other. */
    reason: string;
    /** How many. */
    count: number;
  }[];
};

/** A pool in the last hour, as recorded by one replica. */
export type PoolHistory = {
  /** When the first step began: an hour ago, or when the replica started. */
  since: string;
  /** Name of the replica that answers; each has its own history. */
  replica: string;
  /** Length of a step; the last step is incomplete. */
  stepSeconds: number;
  /** Pods that could be claimed, at the step's end. One number per step. */
  ready: number[];
  /** The fewest of them during the step; a burst lowers it only for a moment. One number per step. */
  lowest: number[];
  /** Pods that were starting, at the step's end. One number per step. */
  warming: number[];
  /** Pods that became ready. One number per step. */
  refilled: number[];
  /** Pods that were given to a claim. One number per step. */
  hits: number[];
  /** Claims of the pool's workload that became Active with a cold pod. One number per step. */
  misses: number[];
};

/** Result of a command. */
export type ExecOutcome = {
  /** Standard output, at most 1 MiB. */
  stdout: string;
  /** Standard error, at most 1 MiB. */
  stderr: string;
  /** The command's own exit code. */
  exitCode: number;
  /** True if more was printed than returned. */
  truncated?: boolean;
};

/** Results of a trigger's last events on one replica. */
export type Deliveries = {
  /** Name of the replica that answers; each has its own history. */
  replica: string;
  /** When it started. */
  since: string;
  /** Newest first. */
  deliveries: {
    /** The event's. */
    id: string;
    /** When it arrived. */
    at: string;
    /** The result, with the values of tenancy_gateway_events_total. */
    result: "answered" | "denied" | "refused" | "failed" | "aborted" | "repeated" | "unsigned" | "rejected" | "missed";
    /** The tenant, once it was known. */
    tenantId?: string;
    /** The status sent to its source. */
    status?: number;
    /** Milliseconds from arrival to response. */
    ms: number;
    /** How the instance was found: in a pool or started cold, and whether files were restored. */
    source?: "existing" | "pool" | "pool+data" | "cold" | "cold+data";
    /** Name of the pod that it was sent to. */
    instanceId?: string;
    /** Why it was not answered; the trigger's Events have details. */
    reason?: string;
    /** True if a caller of the API sent it. */
    test?: boolean;
  }[];
};

/** Who changed or looked at what, on one replica. */
export type AuditLog = {
  /** Name of the replica that answers; each has its own records. */
  replica: string;
  /** From then on the replica has every record. */
  since: string;
  /** Requests without a valid key that were too many to be recorded, since the replica's start. */
  omitted: number;
  /** Newest first. */
  records: {
    /** When the record was made. */
    time: string;
    /** The request's `x-request-id`, which a client may choose. */
    requestId: string;
    /** `ResponseStarted`: a WebSocket was opened, or a streamed answer has begun. */
    stage: "ResponseStarted" | "ResponseComplete";
    /** Who made the request. */
    actor: {
      /** Such as `root` or `key`; `anonymous` where no key is required, `unknown` without a valid key. */
      kind: string;
      /** Id of the key, person or account. */
      id?: string;
    };
    /** IP address of the client. */
    address?: string;
    /** Whether it can change something. */
    act: "change" | "look";
    /** Method of the request; `_OTHER` for one that no route has. */
    method: string;
    /** Pattern of the route; `*` for none. */
    route: string;
    /** What the request is about, by the kind of thing. */
    object: Record<string, string>;
    /** Status of the answer. */
    status: number;
    /** By the status. `aborted`: the client left before the answer. */
    outcome: "done" | "refused" | "failed" | "aborted";
    /** Where the pod of a claim came from. */
    source?: string;
    /** How the server closed a WebSocket. */
    closeCode?: number;
    /** Milliseconds since the request. */
    ms: number;
  }[];
};

/** Result of a test event. */
export type TestDelivery = {
  /** The event's. */
  id: string;
  /** When it arrived. */
  at: string;
  /** The result, with the values of tenancy_gateway_events_total. */
  result: "answered" | "denied" | "refused" | "failed" | "aborted" | "repeated" | "unsigned" | "rejected" | "missed";
  /** The tenant, once it was known. */
  tenantId?: string;
  /** The status sent to its source. */
  status?: number;
  /** Milliseconds from arrival to response. */
  ms: number;
  /** How the instance was found: in a pool or started cold, and whether files were restored. */
  source?: "existing" | "pool" | "pool+data" | "cold" | "cold+data";
  /** Name of the pod that it was sent to. */
  instanceId?: string;
  /** Why it was not answered; the trigger's Events have details. */
  reason?: string;
  /** True if a caller of the API sent it. */
  test?: boolean;
  /** Media type of the container's response. */
  contentType?: string;
  /** The container's response as text, at most 64 KiB. */
  body?: string;
  /** True if there was more. */
  truncated?: boolean;
  /** The message that the source would have received, if the container did not respond. */
  message?: string;
};

/** Connects an external event to a claim. */
export type TriggerSpec = {
  /** Type of event source. */
  type: "webhook" | "messenger" | "cron";
  /** Name of the workload to claim. */
  workloadRef: string;
  /** How to find the tenant of an event: exactly one of from and static. */
  tenant: {
    /** Dotted path of the event's field with the tenant id. */
    from?: string;
    /** Prefix of the value of from. */
    prefix?: string;
    /** Fixed tenant id, instead of from. */
    static?: string;
  };
  /** Protocol to the container; plain HTTP when absent. */
  driver?: "driver-a" | "driver-b";
  /** Settings of the driver. */
  driverOptions?: {
    /** Path of the request to the container; / when absent. */
    path?: string;
    /** Seconds for the whole round trip; 300 when absent. */
    timeoutSeconds?: number;
    /** driver-b: Secret with the token for connect. */
    tokenSecretRef?: {
      /** Name of the Secret. */
      name: string;
      /** Key within the Secret. */
      key: string;
    };
  };
  /** Signs each request to the container as a Standard Webhook; only without a driver. */
  signing?: {
    /** Secret with whsec_ and base64 of 24 to 64 bytes, or two of them with a comma between them. */
    secretRef: {
      /** Name of the Secret. */
      name: string;
      /** Key within the Secret. */
      key: string;
    };
  };
  /** Settings of the trigger's type; each field names its type. */
  config: {
    /** webhook: path that the gateway serves. */
    path?: string;
    /** webhook: Secret with the key of the signature in X-Hub-Signature-256. */
    secretRef?: {
      /** Name of the Secret. */
      name: string;
      /** Key within the Secret. */
      key: string;
    };
    /** messenger: Secret with the bot's token. */
    botTokenSecretRef?: {
      /** Name of the Secret. */
      name: string;
      /** Key within the Secret. */
      key: string;
    };
    /** messenger: kinds of updates to request. */
    updateTypes?: string[];
    /** messenger: how long one poll waits, in seconds. */
    pollTimeoutSeconds?: number;
    /** messenger: URL of another server of the bot API. */
    apiBaseUrl?: string;
    /** cron: five fields, such as 0 9 * * 1-5. */
    schedule?: string;
    /** cron: IANA name, such as Europe/Berlin; UTC when absent. */
    timezone?: string;
    /** cron: maximum delay of a missed occurrence, in seconds; 60 when absent. */
    catchUpSeconds?: number;
    /** cron: data for the container. */
    payload?: Record<string, unknown>;
  };
  /**
   * Settings of the claims that events create. An event for a tenant who has a claim on the workload joins that
   * one, whatever its inputs and labels.
   */
  claim?: {
    /**
     * What the program gets, for a workload with entrypoint.start OnClaim or entrypoint.onClaim: at most 64 KiB of
     * variables, and 1 MiB of files.
     */
    inputs?: {
      /**
       * Environment variables of the program, at most 64 KiB together. Not for secrets: all who may read claims see
       * them.
       */
      env?: Record<string, string>;
      /** A Secret with more environment variables: each of its keys that can be the name of a variable is one. */
      secretRef?: {
        /** Name of the Secret. */
        name: string;
      };
      /** Files that the program finds: at most 1 MiB together. */
      files?: {
        /** Absolute path of the file. Missing folders above it are made. */
        path: string;
        /** Permissions in octal digits. */
        mode?: string;
        /** The content as text. Not for secrets: all who may read claims see it. */
        content?: string;
        /** The content in base64, as an alternative to content. */
        base64?: string;
        /** The key of a ConfigMap with the content. */
        configMapRef?: {
          /** Name of the ConfigMap. */
          name: string;
          /** Key within the ConfigMap. */
          key: string;
        };
        /** The key of a Secret with the content. */
        secretRef?: {
          /** Name of the Secret. */
          name: string;
          /** Key within the Secret. */
          key: string;
        };
      }[];
    };
    /**
     * Labels of the claim's pods, where each key follows the prefix claim.tenancy.dev/. Not for secrets: everyone
     * who may read pods or events sees them.
     */
    labels?: Record<string, string>;
    /**
     * Seconds after an event until the claim is released, even while it is in use. A claim with a later expiry, or
     * with none, keeps it.
     */
    expiresInSeconds?: number;
  };
  /** Checks that every event must pass, in order. */
  guards?: {
    /** Kind of guard. */
    type: "allowlist" | "api";
    /** Settings of the guard; each field names its type. */
    config: {
      /** allowlist: allowed tenants. */
      tenantIds?: string[];
      /** api: URL that receives a POST of {tenantId, source}. */
      url?: string;
      /** api: headers of the request. */
      headers?: Record<string, string>;
      /** api: headers of the request whose values are in Secrets. */
      headerSecretRefs?: Record<string, {
        /** Name of the Secret. */
        name: string;
        /** Key within the Secret. */
        key: string;
      }>;
      /** Message for a denied caller. */
      denyMessage?: string;
    };
  }[];
};

/** Connects an event from outside to a claim. */
export type Trigger = {
  /** Name of the trigger. */
  name: string;
  /** Connects an external event to a claim. */
  spec: TriggerSpec;
  /** The gateway's result. */
  status: {
    /** Absent until the gateway has reconciled it. */
    phase?: "Active" | "Error";
    /** The gateway's message. */
    detail?: string;
  };
  /** When it was created. */
  createdAt: string;
};

/** The part of a workload that an event contains. */
export type OpenWorkload = {
  /** Name of the workload. */
  name: string;
  /** Increases with each change of the spec. */
  generation: number;
  /** When it was created. */
  createdAt: string;
  /** Phase of the workload. */
  phase: "Creating" | "Building" | "Ready" | "Error" | "Terminating";
  /** One word for programs, if something is wrong. */
  reason?: string;
};

/** The part of a pool that an event contains. */
export type OpenPool = {
  /** Name of the pool. */
  name: string;
  /** Increases with each change of the spec. */
  generation: number;
  /** When it was created. */
  createdAt: string;
  /** The workload. */
  workloadRef: string;
  /** Number of warm pods that it aims for. */
  size: number;
  /**
   * Filling until as many pods are ready as it aims for, Degraded while pods keep failing or are refused, Error if
   * no pod can be made.
   */
  phase: "Filling" | "Ready" | "Degraded" | "Error";
  /** Pods that can be claimed. */
  ready: number;
  /** Pods that are starting. */
  warming: number;
  /** Number of pods that the operator aims for. */
  desired?: number;
  /** One word for programs, if something is wrong. */
  reason?: string;
};

/** The part of a trigger that an event contains. */
export type OpenTrigger = {
  /** Name of the trigger. */
  name: string;
  /** Increases with each change of the spec. */
  generation: number;
  /** When it was created. */
  createdAt: string;
  /** Type of event source. */
  type: "webhook" | "messenger" | "cron";
  /** The workload. */
  workloadRef: string;
  /** Absent until the gateway has reconciled it. */
  phase?: "Active" | "Error";
};

/** Response of `/ws` to the text `ping`. */
export type Pong = {
  /** Id of the newest event, for `since`. */
  id: string;
  /** The action. */
  type: "pong";
  /** The server's clock. */
  time: string;
  /** Whether the server's cache of the cluster is fresh. */
  fresh: boolean;
  /**
   * By kind: the version up to which this connection has delivered changes. A list whose `x-tenancy-version` is at
   * least this contains all of them, and later changes arrive on the connection.
   */
  versions: Record<string, string>;
};

/** By method and path. */
export interface Operations {
  /** Whether the process is alive. */
  "GET /api/v1/health": {
    answer: Health;
  };
  /**
   * Claim a workload for a tenant. Creates the claim, or joins the existing one, and waits at most 30 seconds until
   * it is Active. After a 504 the claim continues: call again to keep waiting. If the claim is released during the
   * call, the response is 409; a release that was already in progress is waited for.
   */
  "POST /api/v1/tenants/{id}/claim": {
    path: {
      /** Tenant id. */
      id: string;
    };
    body: {
      /** The workload. */
      workload?: string;
      /** An alias of `workload`; if both are given, they must be equal. */
      workloadRef?: string;
      /**
       * Whether to restore the files of the last release, or which version: the SHA-256 of a snapshot, its first 16
       * digits, or its name. If the claim is Active without those files, the response is 409.
       */
      resume?: boolean | {
        version: string;
      };
      /**
       * Seconds until the claim is released, even while it is in use. An existing claim keeps its expiry if that is
       * later, or if it has none.
       */
      expiresInSeconds?: number;
      /**
       * Zone that the instance should run in, a value of the nodes' label topology.kubernetes.io/zone. It is a
       * preference: if no warm pod is in the zone, the claim gets another one. An instance that exists stays where
       * it is.
       */
      zone?: string;
      /**
       * Labels of the pod, where each key follows the prefix `claim.tenancy.dev/`; never for secrets. If the claim
       * exists with others, the response is 409; without this, the call joins it.
       */
      labels?: Record<string, string>;
      /**
       * Environment variables of the program, at most 64 KiB together. Not for secrets: all who may read claims see
       * them.
       */
      env?: Record<string, string>;
      /**
       * Secret environment variables of the program, at most 64 KiB together with env. They are stored in a Secret
       * that is deleted with the claim.
       */
      secrets?: Record<string, string>;
      /** Files that the program finds: at most 1 MiB together. */
      files?: {
        /** Absolute path of the file. Missing folders above it are made. */
        path: string;
        /** Permissions in octal digits. */
        mode?: string;
        /** The content as text. Not for secrets: all who may read claims see it. */
        content?: string;
        /** The content in base64, as an alternative to content. */
        base64?: string;
        /** The key of a ConfigMap with the content. */
        configMapRef?: {
          /** Name of the ConfigMap. */
          name: string;
          /** Key within the ConfigMap. */
          key: string;
        };
        /** The key of a Secret with the content. */
        secretRef?: {
          /** Name of the Secret. */
          name: string;
          /** Key within the Secret. */
          key: string;
        };
      }[];
    };
    answer: Claim;
  };
  /**
   * Extend a tenant's claim. Moves the time at which the claim expires to so many seconds from now, by the
   * cluster's clock, and never to an earlier one. The response is 409 if the claim is being released, or does not
   * expire.
   */
  "POST /api/v1/tenants/{id}/extend": {
    path: {
      /** Tenant id. */
      id: string;
    };
    body: {
      /** The workload. */
      workload?: string;
      /** An alias of `workload`; if both are given, they must be equal. */
      workloadRef?: string;
      /** The claim object to act on: 409 if it has ended. Without it, the current claim. */
      uid?: string;
      /** Seconds from now until the claim expires; an expiry that is later stays. */
      seconds: number;
    };
    answer: {
      /** The action. */
      status: "extended";
      /** The tenant. */
      tenantId: string;
      /** When the claim expires. */
      expiresAt: string;
    };
  };
  /**
   * Release a tenant's claim. Deletes the claim; the tenant's files are saved, and the pod is deleted. With `wait`
   * the response reports what happened to the files, unless the workload saves none or this server could not
   * observe it.
   */
  "POST /api/v1/tenants/{id}/release": {
    path: {
      /** Tenant id. */
      id: string;
    };
    query?: {
      /** Whether to wait until the claim is gone. */
      wait?: boolean | undefined;
    };
    body: {
      /** The workload. */
      workload?: string;
      /** An alias of `workload`; if both are given, they must be equal. */
      workloadRef?: string;
      /** The claim object to act on: 409 if it has ended. Without it, the current claim. */
      uid?: string;
    };
    answer: {
      /** The action. */
      status: "released";
      /** The tenant. */
      tenantId: string;
      /**
       * What happened to the files at the release: saved in a new archive, unchanged since the newest archive,
       * notSaved because they were lost before, or discarded on request. Absent before the release, and if the
       * workload saves no files.
       */
      files?: "saved" | "unchanged" | "notSaved" | "discarded";
    };
  };
  /**
   * Discard the files that a release cannot save. The release of the claim continues without saving them, and its
   * pod is deleted; earlier snapshots stay. The response is 409 if no release has failed.
   */
  "POST /api/v1/tenants/{id}/discard": {
    path: {
      /** Tenant id. */
      id: string;
    };
    body: {
      /** The workload. */
      workload?: string;
      /** An alias of `workload`; if both are given, they must be equal. */
      workloadRef?: string;
      /** The claim object to act on: 409 if it has ended. Without it, the current claim. */
      uid?: string;
    };
    answer: {
      /** The action. */
      status: "discarded";
      /** The tenant. */
      tenantId: string;
    };
  };
  /** One managed pod. */
  "GET /api/v1/instances/{id}": {
    path: {
      /** Name of the pod. */
      id: string;
    };
    query?: {
      /** Whether to include its node, its containers and its Events, read now. */
      detail?: boolean | undefined;
    };
    answer: InstanceDetail;
  };
  /** Report that a pod is in use. Postpones its idle release. Claim calls and exec count by themselves. */
  "POST /api/v1/instances/{id}/activity": {
    path: {
      /** Name of the pod. */
      id: string;
    };
    answer: {
      /** The action. */
      status: "active";
      /** Name of the pod. */
      instance: string;
    };
  };
  /** Run a command in the workload's container. 409 for a warm pod, and until a claim is Active with the instance. */
  "POST /api/v1/instances/{id}/exec": {
    path: {
      /** Name of the pod. */
      id: string;
    };
    body: {
      /** Program and arguments, at most 100000 bytes in total; no shell. */
      command: string[];
      /** After this, the response is 504. */
      timeoutSeconds?: number;
    };
    answer: ExecOutcome;
  };
  /** Log of the workload's container. */
  "GET /api/v1/instances/{id}/logs": {
    path: {
      /** Name of the pod. */
      id: string;
    };
    query?: {
      /** Number of last lines. */
      tail?: number | undefined;
      /** Whether to follow the log. */
      follow?: boolean | undefined;
      /** Whether to read the run before the container's last restart. */
      previous?: boolean | undefined;
    };
    answer: string;
  };
  /**
   * Delete a pod now without saving its files. A claim that is Active with it stays Active, without a pod; a
   * waiting claim gets another pod, and a claim that is being released ends. To save the files, release the claim
   * instead.
   */
  "POST /api/v1/instances/{id}/destroy": {
    path: {
      /** Name of the pod. */
      id: string;
    };
    query?: {
      /** The tenant who must have the instance; empty for an unclaimed warm pod. 409 if that is no longer true. */
      tenant?: string | undefined;
    };
    answer: {
      /** The action. */
      status: "destroyed";
      /** Name of the pod. */
      instance: string;
    };
  };
  /** All managed pods. By name. */
  "GET /api/v1/instances": {
    query?: {
      /** Maximum number, sorted by name. */
      limit?: number | undefined;
      /** Only names after this one, which x-tenancy-next returns. */
      after?: string | undefined;
      /** Only this tenant's. */
      tenant?: string | undefined;
      /** Only this workload's. */
      workload?: string | undefined;
      /** Only these phases, separated by commas: Pending, Running, Succeeded, Failed, Unknown. */
      phase?: string | undefined;
    };
    answer: Instance[];
  };
  /**
   * Start a process in an instance. In the workload's container, as its user. Waits for its end and returns its
   * output; one in the background goes on without a connection, and keeps the last MiB of each output. It ends with
   * its caller's connection otherwise, and in any case when the instance is released. At most 64 at once.
   */
  "POST /api/v1/instances/{id}/processes": {
    path: {
      /** Name of the pod. */
      id: string;
    };
    query?: {
      /** Whether to stream the output as it comes, as server-sent events or lines of JSON, by `Accept`. */
      follow?: boolean | undefined;
      /** How streamed output is written: as `text`, or its bytes as `base64`. */
      encoding?: "text" | "base64" | undefined;
    };
    body: {
      /** Program and arguments, at most 100000 bytes in total; no shell. */
      command: string[];
      /**
       * Variables in addition to those of the container and of the claim, which they replace; at most 64 KiB in
       * total.
       */
      env?: Record<string, string>;
      /** The folder it starts in; by default the container's. Relative to that one. */
      cwd?: string;
      /** What it reads, at most 262144 bytes of UTF-8; by default nothing. */
      stdin?: string;
      /** Whether its input stays open after that, for clients that attach. A terminal's always does. */
      keepStdin?: boolean;
      /** Gives it a terminal of this size. Both its outputs are then one, stdout. */
      tty?: {
        /** Columns. */
        cols: number;
        /** Rows. */
        rows: number;
      };
      /** Whether it goes on by itself: the response does not wait for its end. */
      background?: boolean;
      /** After this it gets SIGTERM, and SIGKILL two seconds later. 60 by default; none in the background. */
      timeoutSeconds?: number;
    };
    answer: Process;
  };
  /**
   * Processes that were started in an instance. Those that run, and the last 16 of the background that have ended.
   * The workload's own program is not one of them. Of a command, about the first 12 KiB: its last argument then
   * ends with how many bytes are missing.
   */
  "GET /api/v1/instances/{id}/processes": {
    path: {
      /** Name of the pod. */
      id: string;
    };
    answer: Process[];
  };
  /**
   * One process with its output. With the output that is kept: the last MiB of each, and the last 64 KiB of a
   * terminal.
   */
  "GET /api/v1/instances/{id}/processes/{pid}": {
    path: {
      /** Name of the pod. */
      id: string;
      /** `pid` in the list of processes. */
      pid: number;
    };
    query?: {
      /** Whether to stream the output as it comes, as server-sent events or lines of JSON, by `Accept`. */
      follow?: boolean | undefined;
      /** How streamed output is written: as `text`, or its bytes as `base64`. */
      encoding?: "text" | "base64" | undefined;
      /**
       * The first byte of stdout that is wanted; a negative number counts from the end. By default the first that
       * is kept.
       */
      stdoutFrom?: number | undefined;
      /**
       * The first byte of stderr that is wanted; a negative number counts from the end. By default the first that
       * is kept.
       */
      stderrFrom?: number | undefined;
    };
    answer: Process;
  };
  /** Send a signal to a process and its group. */
  "POST /api/v1/instances/{id}/processes/{pid}/signal": {
    path: {
      /** Name of the pod. */
      id: string;
      /** `pid` in the list of processes. */
      pid: number;
    };
    body: {
      /** Its name, with or without SIG. */
      signal: string;
    };
    answer: Process;
  };
  /**
   * List files in an instance. What is in a folder, by name, each folder before what is in it. Links are shown and
   * not followed. `watch=true` streams what changes in it instead.
   */
  "GET /api/v1/instances/{id}/files": {
    path: {
      /** Name of the pod. */
      id: string;
    };
    query?: {
      /** The folder's path without the slash at its start; by default the root. */
      folder?: string | undefined;
      /** How many folders deep. 0 shows only what the path itself names, which need not be a folder. */
      depth?: number | undefined;
      /** Maximum number of entries. */
      limit?: number | undefined;
      /** The next page, as x-tenancy-next names it. */
      after?: string | undefined;
      /**
       * Whether to stream what changes in the folder, as server-sent events or lines of JSON, by `Accept`. Without
       * `limit` and `after`, and with a `depth` of at least 1.
       */
      watch?: boolean | undefined;
    };
    answer: InstanceFile[];
  };
  /**
   * Read a file in an instance. As the workload's user. Links are followed. 409 for folders, devices, pipes and
   * sockets. `archive=tar.gz` sends a folder.
   */
  "GET /api/v1/instances/{id}/files/{path}": {
    path: {
      /** Name of the pod. */
      id: string;
      /** `path` in the list of files, or `encodedPath`, percent-encoded as it stands, if it has one. */
      path: string;
    };
    query?: {
      /**
       * Sends what is in a folder, packed, with paths below the folder. Links stay links; devices, pipes and
       * sockets are left out. The connection is closed before the last byte if something cannot be read any more.
       */
      archive?: "tar.gz" | undefined;
    };
    headers?: {
      /** The ETag of the caller's copy: the response is 304 without a body if nothing has changed. */
      "if-none-match"?: string | undefined;
      /** A part of the file, such as `bytes=0-99`: the response is 206 with it, or 416 if the file is shorter. */
      range?: string | undefined;
      /** The ETag that the part is of: if the file has another, all of it is sent. */
      "if-range"?: string | undefined;
    };
    answer: Response;
  };
  /**
   * Write a file in an instance. As the workload's user. The file is there as a whole or not at all; missing
   * folders are made. With `If-None-Match: *` 409 if there is a file. A link is followed. `unpack=true` unpacks an
   * archive into a folder.
   */
  "PUT /api/v1/instances/{id}/files/{path}": {
    path: {
      /** Name of the pod. */
      id: string;
      /** `path` in the list of files, or `encodedPath`, percent-encoded as it stands, if it has one. */
      path: string;
    };
    query?: {
      /** Its permissions; by default those of the file that it replaces, or 0644. */
      mode?: string | undefined;
      /**
       * Whether the body is a tar or tar.gz, detected by its first bytes, for the folder of this path. Files in it
       * are replaced, folders are merged, and nothing changes unless all of the archive is right. Owners, setuid
       * and setgid are ignored; devices, pipes, `..` and absolute paths are refused.
       */
      unpack?: boolean | undefined;
    };
    headers?: {
      /** `*`: the request is refused if there is a file. */
      "if-none-match"?: "*" | undefined;
    };
    body: RawBody;
    /** @default the first */
    contentType?: "application/octet-stream" | "application/x-tar" | "application/gzip";
    answer: InstanceFile;
  };
  /** Remove a file or folder in an instance. Links are removed and not followed. */
  "DELETE /api/v1/instances/{id}/files/{path}": {
    path: {
      /** Name of the pod. */
      id: string;
      /** `path` in the list of files, or `encodedPath`, percent-encoded as it stands, if it has one. */
      path: string;
    };
    query?: {
      /** Whether a folder is removed with what is in it; otherwise 409 unless it is empty. */
      recursive?: boolean | undefined;
    };
    answer: {
      /** The action. */
      status: "removed";
    };
  };
  /**
   * Make a folder, move a file or folder, or set its permissions. `mkdir=true` makes the folder and those above it,
   * with `mode` for the last one if it is new. `move` gives it another path; 409 if there is something, unless
   * `replace=true`. `mode` alone sets the permissions.
   */
  "POST /api/v1/instances/{id}/files/{path}": {
    path: {
      /** Name of the pod. */
      id: string;
      /** `path` in the list of files, or `encodedPath`, percent-encoded as it stands, if it has one. */
      path: string;
    };
    query?: {
      /** Whether to make a folder. */
      mkdir?: boolean | undefined;
      /** The new path, without the slash at its start. Folders above it are made. */
      move?: string | undefined;
      /** Whether a move may replace a file, or an empty folder by a folder. */
      replace?: boolean | undefined;
      /** The permissions. */
      mode?: string | undefined;
    };
    answer: InstanceFile;
  };
  /**
   * Start a process in an instance. In the workload's container, as its user. Waits for its end and returns its
   * output; one in the background goes on without a connection, and keeps the last MiB of each output. It ends with
   * its caller's connection otherwise, and in any case when the instance is released. At most 64 at once.
   */
  "POST /api/v1/tenants/{id}/instances/{workload}/processes": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
    };
    query?: {
      /** Whether to stream the output as it comes, as server-sent events or lines of JSON, by `Accept`. */
      follow?: boolean | undefined;
      /** How streamed output is written: as `text`, or its bytes as `base64`. */
      encoding?: "text" | "base64" | undefined;
      /** Whether to claim the workload, with its files, if that is not so, and to wait for it. */
      wake?: boolean | undefined;
    };
    body: {
      /** Program and arguments, at most 100000 bytes in total; no shell. */
      command: string[];
      /**
       * Variables in addition to those of the container and of the claim, which they replace; at most 64 KiB in
       * total.
       */
      env?: Record<string, string>;
      /** The folder it starts in; by default the container's. Relative to that one. */
      cwd?: string;
      /** What it reads, at most 262144 bytes of UTF-8; by default nothing. */
      stdin?: string;
      /** Whether its input stays open after that, for clients that attach. A terminal's always does. */
      keepStdin?: boolean;
      /** Gives it a terminal of this size. Both its outputs are then one, stdout. */
      tty?: {
        /** Columns. */
        cols: number;
        /** Rows. */
        rows: number;
      };
      /** Whether it goes on by itself: the response does not wait for its end. */
      background?: boolean;
      /** After this it gets SIGTERM, and SIGKILL two seconds later. 60 by default; none in the background. */
      timeoutSeconds?: number;
    };
    answer: Process;
  };
  /**
   * Processes that were started in an instance. Those that run, and the last 16 of the background that have ended.
   * The workload's own program is not one of them. Of a command, about the first 12 KiB: its last argument then
   * ends with how many bytes are missing.
   */
  "GET /api/v1/tenants/{id}/instances/{workload}/processes": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
    };
    query?: {
      /** Whether to claim the workload, with its files, if that is not so, and to wait for it. */
      wake?: boolean | undefined;
    };
    answer: Process[];
  };
  /**
   * One process with its output. With the output that is kept: the last MiB of each, and the last 64 KiB of a
   * terminal.
   */
  "GET /api/v1/tenants/{id}/instances/{workload}/processes/{pid}": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
      /** `pid` in the list of processes. */
      pid: number;
    };
    query?: {
      /** Whether to claim the workload, with its files, if that is not so, and to wait for it. */
      wake?: boolean | undefined;
      /** Whether to stream the output as it comes, as server-sent events or lines of JSON, by `Accept`. */
      follow?: boolean | undefined;
      /** How streamed output is written: as `text`, or its bytes as `base64`. */
      encoding?: "text" | "base64" | undefined;
      /**
       * The first byte of stdout that is wanted; a negative number counts from the end. By default the first that
       * is kept.
       */
      stdoutFrom?: number | undefined;
      /**
       * The first byte of stderr that is wanted; a negative number counts from the end. By default the first that
       * is kept.
       */
      stderrFrom?: number | undefined;
    };
    answer: Process;
  };
  /** Send a signal to a process and its group. */
  "POST /api/v1/tenants/{id}/instances/{workload}/processes/{pid}/signal": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
      /** `pid` in the list of processes. */
      pid: number;
    };
    query?: {
      /** Whether to claim the workload, with its files, if that is not so, and to wait for it. */
      wake?: boolean | undefined;
    };
    body: {
      /** Its name, with or without SIG. */
      signal: string;
    };
    answer: Process;
  };
  /**
   * List files in an instance. What is in a folder, by name, each folder before what is in it. Links are shown and
   * not followed. `watch=true` streams what changes in it instead.
   */
  "GET /api/v1/tenants/{id}/instances/{workload}/files": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
    };
    query?: {
      /** Whether to claim the workload, with its files, if that is not so, and to wait for it. */
      wake?: boolean | undefined;
      /** The folder's path without the slash at its start; by default the root. */
      folder?: string | undefined;
      /** How many folders deep. 0 shows only what the path itself names, which need not be a folder. */
      depth?: number | undefined;
      /** Maximum number of entries. */
      limit?: number | undefined;
      /** The next page, as x-tenancy-next names it. */
      after?: string | undefined;
      /**
       * Whether to stream what changes in the folder, as server-sent events or lines of JSON, by `Accept`. Without
       * `limit` and `after`, and with a `depth` of at least 1.
       */
      watch?: boolean | undefined;
    };
    answer: InstanceFile[];
  };
  /**
   * Read a file in an instance. As the workload's user. Links are followed. 409 for folders, devices, pipes and
   * sockets. `archive=tar.gz` sends a folder.
   */
  "GET /api/v1/tenants/{id}/instances/{workload}/files/{path}": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
      /** `path` in the list of files, or `encodedPath`, percent-encoded as it stands, if it has one. */
      path: string;
    };
    query?: {
      /** Whether to claim the workload, with its files, if that is not so, and to wait for it. */
      wake?: boolean | undefined;
      /**
       * Sends what is in a folder, packed, with paths below the folder. Links stay links; devices, pipes and
       * sockets are left out. The connection is closed before the last byte if something cannot be read any more.
       */
      archive?: "tar.gz" | undefined;
    };
    headers?: {
      /** The ETag of the caller's copy: the response is 304 without a body if nothing has changed. */
      "if-none-match"?: string | undefined;
      /** A part of the file, such as `bytes=0-99`: the response is 206 with it, or 416 if the file is shorter. */
      range?: string | undefined;
      /** The ETag that the part is of: if the file has another, all of it is sent. */
      "if-range"?: string | undefined;
    };
    answer: Response;
  };
  /**
   * Write a file in an instance. As the workload's user. The file is there as a whole or not at all; missing
   * folders are made. With `If-None-Match: *` 409 if there is a file. A link is followed. `unpack=true` unpacks an
   * archive into a folder.
   */
  "PUT /api/v1/tenants/{id}/instances/{workload}/files/{path}": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
      /** `path` in the list of files, or `encodedPath`, percent-encoded as it stands, if it has one. */
      path: string;
    };
    query?: {
      /** Whether to claim the workload, with its files, if that is not so, and to wait for it. */
      wake?: boolean | undefined;
      /** Its permissions; by default those of the file that it replaces, or 0644. */
      mode?: string | undefined;
      /**
       * Whether the body is a tar or tar.gz, detected by its first bytes, for the folder of this path. Files in it
       * are replaced, folders are merged, and nothing changes unless all of the archive is right. Owners, setuid
       * and setgid are ignored; devices, pipes, `..` and absolute paths are refused.
       */
      unpack?: boolean | undefined;
    };
    headers?: {
      /** `*`: the request is refused if there is a file. */
      "if-none-match"?: "*" | undefined;
    };
    body: RawBody;
    /** @default the first */
    contentType?: "application/octet-stream" | "application/x-tar" | "application/gzip";
    answer: InstanceFile;
  };
  /** Remove a file or folder in an instance. Links are removed and not followed. */
  "DELETE /api/v1/tenants/{id}/instances/{workload}/files/{path}": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
      /** `path` in the list of files, or `encodedPath`, percent-encoded as it stands, if it has one. */
      path: string;
    };
    query?: {
      /** Whether to claim the workload, with its files, if that is not so, and to wait for it. */
      wake?: boolean | undefined;
      /** Whether a folder is removed with what is in it; otherwise 409 unless it is empty. */
      recursive?: boolean | undefined;
    };
    answer: {
      /** The action. */
      status: "removed";
    };
  };
  /**
   * Make a folder, move a file or folder, or set its permissions. `mkdir=true` makes the folder and those above it,
   * with `mode` for the last one if it is new. `move` gives it another path; 409 if there is something, unless
   * `replace=true`. `mode` alone sets the permissions.
   */
  "POST /api/v1/tenants/{id}/instances/{workload}/files/{path}": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
      /** `path` in the list of files, or `encodedPath`, percent-encoded as it stands, if it has one. */
      path: string;
    };
    query?: {
      /** Whether to claim the workload, with its files, if that is not so, and to wait for it. */
      wake?: boolean | undefined;
      /** Whether to make a folder. */
      mkdir?: boolean | undefined;
      /** The new path, without the slash at its start. Folders above it are made. */
      move?: string | undefined;
      /** Whether a move may replace a file, or an empty folder by a folder. */
      replace?: boolean | undefined;
      /** The permissions. */
      mode?: string | undefined;
    };
    answer: InstanceFile;
  };
  /** One tenant and its claims. */
  "GET /api/v1/tenants/{id}": {
    path: {
      /** Tenant id. */
      id: string;
    };
    answer: Tenant;
  };
  /** All tenants with a claim. */
  "GET /api/v1/tenants": {
    answer: Tenant[];
  };
  /**
   * A tenant's quota, and what it uses. A limit that does not hold is absent. What is used is counted from the
   * cached claims and the stored snapshots; the operator decides by its own count.
   */
  "GET /api/v1/tenants/{id}/limits": {
    path: {
      /** Tenant id. */
      id: string;
    };
    answer: TenantLimits;
  };
  /**
   * Tenants with their saved files and quotas, in pages. All tenants that have a claim, saved files, or an entry of
   * their own in the quotas, sorted by id followed by a slash, as in `GET /api/v1/snapshots`: `a-b` comes before
   * `a`. With `tenants`, exactly these, whatever they have.
   */
  "GET /api/v1/tenant-summaries": {
    query?: {
      /** Only these tenants, at most 100, separated by commas. */
      tenants?: string | undefined;
      /** Only tenants whose ids begin with this. */
      prefix?: string | undefined;
      /** Maximum number of tenants. */
      limit?: number | undefined;
      /** Only tenants after this one, which x-tenancy-next returns. */
      after?: string | undefined;
    };
    answer: TenantSummary[];
  };
  /** Claims of all tenants, in pages. Sorted by the name of the claim object. */
  "GET /api/v1/claims": {
    query?: {
      /** Maximum number, sorted by name. */
      limit?: number | undefined;
      /** Only names after this one, which x-tenancy-next returns. */
      after?: string | undefined;
      /** Only this tenant's. */
      tenant?: string | undefined;
      /** Only this workload's. */
      workload?: string | undefined;
      /** Only these phases, separated by commas: Pending, Active, Releasing, Released, ReleaseFailed, Error. */
      phase?: string | undefined;
    };
    answer: ListedClaim[];
  };
  /** One claim, with the steps of its start and its Events. */
  "GET /api/v1/tenants/{id}/claims/{workload}": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
    };
    answer: ClaimDetail;
  };
  /**
   * Create a link to a tenant's instance. An address of the front door that admits everyone who has it, until it
   * expires: a link is a password. A single link cannot be revoked; deleting the API key that asked for it ends it,
   * one that a token asked for ends with that token, that of a ServiceAccount at the latest after 10 minutes, and
   * removing the key that signed it ends all of that key's links.
   */
  "POST /api/v1/tenants/{id}/links": {
    path: {
      /** Tenant id. */
      id: string;
    };
    body: {
      /** The workload, whose `network.expose` must be `link` or `public`. */
      workload: string;
      /** How long the link is valid; at most TENANCY_PROXY_LINK_MAX. */
      expiresInSeconds?: number;
      /** One of the workload's `network.ports`; the first one by default. */
      port?: number;
    };
    answer: Link;
  };
  /** Instances and claims by phase, and the storage used by snapshots and its limits. */
  "GET /api/v1/stats": {
    answer: Stats;
  };
  /** All workloads. */
  "GET /api/v1/workloads": {
    answer: Workload[];
  };
  /** Create a workload. */
  "POST /api/v1/workloads": {
    query?: {
      /**
       * Whether only to validate: the response is the same, including the cluster's own checks, and nothing is
       * written.
       */
      dryRun?: boolean | undefined;
    };
    body: {
      /** A DNS-1123 name of at most 63 characters. */
      name: string;
      spec: WorkloadSpec;
      /** Ignored, so that a response can be sent back. */
      status?: unknown;
      /** Ignored, so that a response can be sent back. */
      createdAt?: unknown;
    };
    answer: Workload;
  };
  /** One workload. */
  "GET /api/v1/workloads/{name}": {
    path: {
      /** Name of the workload. */
      name: string;
    };
    answer: Workload;
  };
  /**
   * Replace a workload's spec. Pools roll to the new spec; claimed pods are not changed. With `If-Match` the
   * response is 409 if the spec no longer has that ETag; without it the last write wins.
   */
  "PUT /api/v1/workloads/{name}": {
    path: {
      /** Name of the workload. */
      name: string;
    };
    query?: {
      /**
       * Whether only to validate: the response is the same, including the cluster's own checks, and nothing is
       * written.
       */
      dryRun?: boolean | undefined;
    };
    headers?: {
      /** The ETag of the object as it was read: the request is refused if the spec has changed since. */
      "if-match"?: string | undefined;
    };
    body: {
      /** A DNS-1123 name of at most 63 characters. */
      name?: string;
      spec: WorkloadSpec;
      /** Ignored, so that a response can be sent back. */
      status?: unknown;
      /** Ignored, so that a response can be sent back. */
      createdAt?: unknown;
    };
    answer: Workload;
  };
  /**
   * Delete a workload. The workload is deleted when no claim and no pool uses it; until then the response names
   * those that do.
   */
  "DELETE /api/v1/workloads/{name}": {
    path: {
      /** Name of the workload. */
      name: string;
    };
    headers?: {
      /** The ETag of the object as it was read: the request is refused if the spec has changed since. */
      "if-match"?: string | undefined;
    };
    answer: {
      /** The action. */
      status: "deleted";
      /** Present while something uses the workload. */
      phase?: "Terminating";
      /** The objects that use it, and what to do. */
      message?: string;
    };
  };
  /** All pools. */
  "GET /api/v1/pools": {
    answer: Pool[];
  };
  /** Create a pool. */
  "POST /api/v1/pools": {
    query?: {
      /**
       * Whether only to validate: the response is the same, including the cluster's own checks, and nothing is
       * written.
       */
      dryRun?: boolean | undefined;
    };
    body: {
      /** A DNS-1123 name of at most 63 characters. */
      name: string;
      spec: PoolSpec;
      /** Ignored, so that a response can be sent back. */
      status?: unknown;
      /** Ignored, so that a response can be sent back. */
      createdAt?: unknown;
    };
    answer: Pool;
  };
  /** One pool. */
  "GET /api/v1/pools/{name}": {
    path: {
      /** Name of the pool. */
      name: string;
    };
    answer: Pool;
  };
  /**
   * Replace a pool's spec. A smaller size deletes warm pods; claimed pods stay. With `If-Match` the response is 409
   * if the spec no longer has that ETag; without it the last write wins.
   */
  "PUT /api/v1/pools/{name}": {
    path: {
      /** Name of the pool. */
      name: string;
    };
    query?: {
      /**
       * Whether only to validate: the response is the same, including the cluster's own checks, and nothing is
       * written.
       */
      dryRun?: boolean | undefined;
    };
    headers?: {
      /** The ETag of the object as it was read: the request is refused if the spec has changed since. */
      "if-match"?: string | undefined;
    };
    body: {
      /** A DNS-1123 name of at most 63 characters. */
      name?: string;
      spec: PoolSpec;
      /** Ignored, so that a response can be sent back. */
      status?: unknown;
      /** Ignored, so that a response can be sent back. */
      createdAt?: unknown;
    };
    answer: Pool;
  };
  /** Delete a pool. Its warm pods are deleted with it; claimed pods stay. */
  "DELETE /api/v1/pools/{name}": {
    path: {
      /** Name of the pool. */
      name: string;
    };
    headers?: {
      /** The ETag of the object as it was read: the request is refused if the spec has changed since. */
      "if-match"?: string | undefined;
    };
    answer: {
      /** The action. */
      status: "deleted";
    };
  };
  /** Saved files of all tenants, in pages. Sorted by tenant, then workload; includes deleted workloads. */
  "GET /api/v1/snapshots": {
    query?: {
      /** Whether to include older versions, each after its snapshot. */
      versions?: boolean | undefined;
      /** Maximum number of snapshots; older versions do not count. */
      limit?: number | undefined;
      /** Only snapshots after this one, which x-tenancy-next returns. */
      after?: string | undefined;
      /** Only this tenant's. */
      tenant?: string | undefined;
    };
    answer: Snapshot[];
  };
  /**
   * Saved files of a workload's tenants, in pages. Sorted by tenant. Snapshots of a deleted workload are in the
   * list of all.
   */
  "GET /api/v1/workloads/{name}/snapshots": {
    path: {
      /** Name of the workload. */
      name: string;
    };
    query?: {
      /** Whether to include older versions, each after its snapshot. */
      versions?: boolean | undefined;
      /** Maximum number of snapshots; older versions do not count. */
      limit?: number | undefined;
      /** Only snapshots after this one, which x-tenancy-next returns. */
      after?: string | undefined;
    };
    answer: Snapshot[];
  };
  /**
   * Download a tenant's saved files. A tar.gz with the paths in the pod, without the leading slash. The connection
   * is closed before the last byte if the stored archive is damaged.
   */
  "GET /api/v1/tenants/{id}/snapshots/{workload}/archive": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
    };
    query?: {
      /** SHA-256 of the version, its first 16 digits, or its name; the newest by default. */
      version?: string | undefined;
      /**
       * Only this folder: its `path` in the list of files, or its `encodedPath` if it has one. 409 if the version
       * has no such list, since it is older.
       */
      folder?: string | undefined;
    };
    headers?: {
      /** The ETag of the caller's copy: the response is 304 without a body if nothing has changed. */
      "if-none-match"?: string | undefined;
    };
    answer: Response;
  };
  /**
   * Upload files as a tenant's newest snapshot. A tar or tar.gz, detected by its first bytes, with the workload's
   * overlay directories, as in a download. Devices, `..` and paths outside these directories are refused. The
   * tenant must have no claim on the workload. The next claim with `resume` restores these files.
   */
  "PUT /api/v1/tenants/{id}/snapshots/{workload}/archive": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
    };
    query?: {
      /** The current newest snapshot, which stays as an older version. */
      replaces?: string | undefined;
      /** Owner of the restored files; by default that of the newest snapshot, or 65532. */
      uid?: number | undefined;
      /** Group of the restored files, with the same default. */
      gid?: number | undefined;
    };
    body: RawBody;
    /** @default the first */
    contentType?: "application/x-tar" | "application/gzip";
    answer: SnapshotVersion;
  };
  /**
   * List a tenant's saved files. What is in one folder, sorted by the bytes of the paths. Only the archive's list
   * is read, not the files. 409 if the version has no such list, since it is older.
   */
  "GET /api/v1/tenants/{id}/snapshots/{workload}/files": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
    };
    query?: {
      /** SHA-256 of the version, its first 16 digits, or its name; the newest by default. */
      version?: string | undefined;
      /**
       * A folder's `path`, or its `encodedPath` if it has one; by default the top, in which the overlay directories
       * are.
       */
      folder?: string | undefined;
      /** Whether to list everything below the folder. */
      recursive?: boolean | undefined;
      /** Maximum number of paths. */
      limit?: number | undefined;
      /** The next page, of the same versions, as x-tenancy-next names it. */
      after?: string | undefined;
    };
    answer: SavedFile[];
  };
  /**
   * Download one of a tenant's saved files. Only this file is read from the store. The connection is closed before
   * the last byte if it is damaged there. 409 for folders and symbolic links.
   */
  "GET /api/v1/tenants/{id}/snapshots/{workload}/files/{path}": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
      /** `path` in the list of files, or `encodedPath`, percent-encoded as it stands, if it has one. */
      path: string;
    };
    query?: {
      /** SHA-256 of the version, its first 16 digits, or its name; the newest by default. */
      version?: string | undefined;
    };
    headers?: {
      /** The ETag of the caller's copy: the response is 304 without a body if nothing has changed. */
      "if-none-match"?: string | undefined;
    };
    answer: Response;
  };
  /**
   * Compare two versions of a tenant's saved files. What was added, changed or removed, sorted by the bytes of the
   * paths. A file of which only the time differs is not listed. 409 if a version has no list of its files, since it
   * is older than such lists.
   */
  "GET /api/v1/tenants/{id}/snapshots/{workload}/diff": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
    };
    query?: {
      /** SHA-256 of a version, its first 16 digits, or its name; by default the version before `to`. */
      from?: string | undefined;
      /** SHA-256 of a version, its first 16 digits, or its name; the newest by default. */
      to?: string | undefined;
      /** Maximum number of paths. */
      limit?: number | undefined;
      /** The next page, of the same versions, as x-tenancy-next names it. */
      after?: string | undefined;
    };
    answer: SavedChange[];
  };
  /**
   * Delete a tenant's saved files with all versions. A claim on the workload keeps its running files, and its next
   * release saves them again; a later claim with `resume` finds nothing. The response is 409 while a release is in
   * progress, or has failed and is being retried, since it would write the snapshot again; and if something was
   * saved during this call. The workload may be deleted already.
   */
  "DELETE /api/v1/tenants/{id}/snapshots/{workload}": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
    };
    query?: {
      /**
       * SHA-256 of the newest version that the caller knows, or its first 16 digits: if another version is the
       * newest, the response is 409 and nothing is deleted.
       */
      newest?: string | undefined;
    };
    answer: {
      /** The action. */
      status: "deleted";
      /** The tenant. */
      tenantId: string;
      /** The workload. */
      workload: string;
    };
  };
  /** All versions of a tenant's saved files. Newest first. A claim restores one with `resume: {version}`. */
  "GET /api/v1/tenants/{id}/snapshots/{workload}/versions": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
    };
    answer: SnapshotVersion[];
  };
  /**
   * Make an older version of a tenant's files the newest. The tenant must have no claim on the workload. The
   * current newest version stays as an older one, and the next claim with `resume` restores this one.
   */
  "POST /api/v1/tenants/{id}/snapshots/{workload}/rollback": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
    };
    body: {
      /** The SHA-256 of the version, its first 16 digits, or its name. */
      version: string;
      /** The newest version that the caller knows: the response is 409 if another one is the newest. */
      newest?: string;
    };
    answer: SnapshotVersion;
  };
  /**
   * Copy a tenant's files to another tenant or workload. The copy is independent. The receiver must have no claim
   * on the workload during the copy; the source may be in use. An Event `SnapshotCopied` of the workload names both
   * tenants.
   */
  "POST /api/v1/tenants/{id}/snapshots/{workload}/copy": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
    };
    body: {
      /** The tenant who receives the copy. */
      tenantId: string;
      /** The workload of the copy; the same by default. */
      workload?: string;
      /** The version to copy, as in a rollback; the newest by default. */
      version?: string;
      /** The receiver's current newest snapshot, which stays as an older version. */
      replaces?: string;
    };
    answer: SnapshotVersion;
  };
  /**
   * Save the files of a tenant's instance while it runs. Makes a checkpoint at once, and waits at most 30 seconds
   * for it. Without a name the session's next checkpoint replaces it. The response is 409 if the instance is not
   * Active, if its workload saves no files, or if another version has the name. After a 504 the checkpoint is still
   * made: until then, a call with the same name waits for it.
   */
  "POST /api/v1/tenants/{id}/checkpoint": {
    path: {
      /** Tenant id. */
      id: string;
    };
    body: {
      /** The workload. */
      workload?: string;
      /** An alias of `workload`; if both are given, they must be equal. */
      workloadRef?: string;
      /** The claim object to act on: 409 if it has ended. Without it, the current claim. */
      uid?: string;
      /**
       * A name for the version: it then stays until it loses the name, and a claim, copy or comparison can name it.
       * At most 63 letters, digits, dashes, dots or underscores, and not 16 hexadecimal digits.
       */
      name?: string;
    };
    answer: SnapshotVersion;
  };
  /**
   * Remove the name of a version of a tenant's files. The version is not deleted at once: from then on it stays for
   * as long as versions without a name do.
   */
  "DELETE /api/v1/tenants/{id}/snapshots/{workload}/names/{name}": {
    path: {
      /** Tenant id. */
      id: string;
      /** Name of the workload. */
      workload: string;
      /** A name of the version. */
      name: string;
    };
    answer: {
      /** The action. */
      status: "removed";
      /** The tenant. */
      tenantId: string;
    };
  };
  /**
   * Upload the build context of a workload. A folder as tar or tar.gz, detected by its first bytes. Links that
   * leave the folder, devices and `..` are refused. The workload then refers to this context, and its image is
   * built again if the context has changed.
   */
  "PUT /api/v1/workloads/{name}/context": {
    path: {
      /** Name of the workload. */
      name: string;
    };
    body: RawBody;
    /** @default the first */
    contentType?: "application/x-tar" | "application/gzip";
    answer: Context;
  };
  /** State of a workload's image build. */
  "GET /api/v1/workloads/{name}/build": {
    path: {
      /** Name of the workload. */
      name: string;
    };
    answer: Build;
  };
  /**
   * Rebuild the image of a workload. Rebuilds even if nothing has changed: a branch or a base image may have moved
   * on. The current image is used until the new one is built.
   */
  "POST /api/v1/workloads/{name}/build": {
    path: {
      /** Name of the workload. */
      name: string;
    };
    answer: {
      /** The action. */
      status: "requested";
      /** The workload. */
      workload: string;
    };
  };
  /**
   * Log of the newest build of a workload. The log of the build, or of fetching its context until that has
   * finished. With `follow`, waits up to 30 s for a build that is about to begin.
   */
  "GET /api/v1/workloads/{name}/build/logs": {
    path: {
      /** Name of the workload. */
      name: string;
    };
    query?: {
      /** Number of last lines. */
      tail?: number | undefined;
      /** Whether to follow the log. */
      follow?: boolean | undefined;
    };
    answer: string;
  };
  /** All triggers. */
  "GET /api/v1/triggers": {
    answer: Trigger[];
  };
  /** Create a trigger. */
  "POST /api/v1/triggers": {
    query?: {
      /**
       * Whether only to validate: the response is the same, including the cluster's own checks, and nothing is
       * written.
       */
      dryRun?: boolean | undefined;
    };
    body: {
      /** A DNS-1123 name of at most 63 characters. */
      name: string;
      spec: TriggerSpec;
      /** Ignored, so that a response can be sent back. */
      status?: unknown;
      /** Ignored, so that a response can be sent back. */
      createdAt?: unknown;
    };
    answer: Trigger;
  };
  /** One trigger. */
  "GET /api/v1/triggers/{id}": {
    path: {
      /** Name of the trigger. */
      id: string;
    };
    answer: Trigger;
  };
  /**
   * Replace a trigger's spec. Events in progress finish under the old spec. With `If-Match` the response is 409 if
   * the spec no longer has that ETag; without it the last write wins.
   */
  "PUT /api/v1/triggers/{id}": {
    path: {
      /** Name of the trigger. */
      id: string;
    };
    query?: {
      /**
       * Whether only to validate: the response is the same, including the cluster's own checks, and nothing is
       * written.
       */
      dryRun?: boolean | undefined;
    };
    headers?: {
      /** The ETag of the object as it was read: the request is refused if the spec has changed since. */
      "if-match"?: string | undefined;
    };
    body: {
      /** A DNS-1123 name of at most 63 characters. */
      name?: string;
      spec: TriggerSpec;
      /** Ignored, so that a response can be sent back. */
      status?: unknown;
      /** Ignored, so that a response can be sent back. */
      createdAt?: unknown;
    };
    answer: Trigger;
  };
  /** Delete a trigger. */
  "DELETE /api/v1/triggers/{id}": {
    path: {
      /** Name of the trigger. */
      id: string;
    };
    headers?: {
      /** The ETag of the object as it was read: the request is refused if the spec has changed since. */
      "if-match"?: string | undefined;
    };
    answer: {
      /** The action. */
      status: "deleted";
    };
  };
  /**
   * Results of a trigger's last events. At most 50 per trigger, kept in memory by the replica that received the
   * event: call several times to reach other replicas. Never contains the content of an event or its response.
   */
  "GET /api/v1/triggers/{id}/deliveries": {
    path: {
      /** Name of the trigger. */
      id: string;
    };
    answer: Deliveries;
  };
  /**
   * Send a test event to a trigger. Handled like a real event: tenant, guards, a claim of a real pod, the
   * container. No signature is needed. Responds after the container has, with the response that the source would
   * have received; the status of this call is 200 even if the event failed.
   */
  "POST /api/v1/triggers/{id}/test": {
    path: {
      /** Name of the trigger. */
      id: string;
    };
    body: {
      /** Data of the event; without it, the `payload` of a trigger of type cron. */
      data?: unknown;
      /** The object to which the path `spec.tenant.from` applies; without it, `data`. */
      fields?: unknown;
      /** The message of a person, for triggers of chats. */
      text?: string;
    };
    answer: TestDelivery;
  };
  /** Everything in the namespace, as the cluster holds it. Never Secrets. */
  "GET /api/v1/debug/resources": {
    answer: Record<string, Record<string, unknown>[]>;
  };
  /** Whether a key is required, and what the caller's session may do. */
  "GET /api/v1/session": {
    answer: Session;
  };
  /**
   * Exchange the key for a session cookie. The cookie is HttpOnly and SameSite=Strict, lasts 12 hours and replaces
   * the key for the edge's own page: writes and WebSockets must prove by `Sec-Fetch-Site` or `Origin` that they
   * come from it. Programs send the key itself.
   */
  "POST /api/v1/session": {
    body: {
      /** TENANCY_API_KEY, or another key. */
      key: string;
    };
    answer: Session;
  };
  /**
   * Delete the browser's session cookie. The server stores no sessions: a copy of the cookie stays valid until it
   * expires, or until the key changes.
   */
  "DELETE /api/v1/session": {
    answer: Session;
  };
  /**
   * Create a key. The answer is the only one with the key itself: the cluster stores its SHA-256. It works on every
   * replica once their watch has shown it, usually within milliseconds.
   */
  "POST /api/v1/keys": {
    body: {
      /** What it is for; shown in the list of keys. */
      name: string;
      /**
       * `admin`: everything. `platform`: all tenants, but no keys and no debug dump. `tenant`: its own tenants.
       * `reader`: sees the service, but no files, logs, processes or messages.
       */
      role: "admin" | "platform" | "tenant" | "reader";
      /** Ids of tenants, or the start of ids and a `*`; required for the role `tenant`, possible for `reader`. */
      tenants?: string[];
      /**
       * Names of workloads, or the start of names and a `*`: it reaches only what is of these. Possible for the
       * roles `tenant` and `reader`.
       */
      workloads?: string[];
      /** How many requests a second it may make of each replica; by default any number. */
      requestsPerSecond?: number;
      /** How long the key is valid; by default until it is deleted. */
      expiresInSeconds?: number;
    };
    answer: CreatedKey;
  };
  /**
   * All keys. Sorted by id, without the keys themselves, from the replica's watch. An expired key stays until it is
   * deleted.
   */
  "GET /api/v1/keys": {
    answer: Key[];
  };
  /** One key. Without the key itself; read from the cluster. */
  "GET /api/v1/keys/{id}": {
    path: {
      /** Id of the key. */
      id: string;
    };
    answer: Key;
  };
  /**
   * Delete a key. The key works no more: on the replica that answers at once, on the others once their watch has
   * shown it. Streams and WebSockets that it has opened end.
   */
  "DELETE /api/v1/keys/{id}": {
    path: {
      /** Id of the key. */
      id: string;
    };
    answer: {
      /** The action. */
      status: "deleted";
      /** Id of the key. */
      id: string;
    };
  };
  /**
   * Who changed or looked at what, on one replica. Newest first, from the memory of the replica that answers: call
   * several times to reach other replicas. At most 10 000 records, and 8 MiB; when they are used up, the oldest of
   * the actor with the most goes first.
   */
  "GET /api/v1/audit": {
    query?: {
      /**
       * Only of this actor: the `id` of a key, a `kind` without ids, or of people and accounts both, such as
       * `person:alice`.
       */
      actor?: string | undefined;
      /** Only about this tenant. */
      tenant?: string | undefined;
      /** Only changes, or only looks. */
      act?: "change" | "look" | undefined;
      /** Only of this method. */
      method?: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | undefined;
      /** Only records made since then. */
      since?: string | undefined;
      /** Maximum number of records. */
      limit?: number | undefined;
      /** The next page, as x-tenancy-next names it; of the same replica only. */
      after?: string | undefined;
    };
    answer: AuditLog;
  };
  /**
   * Claims of the last hour: count, latency, source, and reasons of failures. Each replica records its own history
   * in memory since its start.
   */
  "GET /api/v1/history/claims": {
    answer: ClaimHistory;
  };
  /**
   * A pool in the last hour: ready pods, hits, misses and refills. Each replica records its own history in memory
   * since its start.
   */
  "GET /api/v1/pools/{name}/history": {
    path: {
      /** Name of the pool. */
      name: string;
    };
    answer: PoolHistory;
  };
  /**
   * What sessions and snapshots used, by tenant, workload or day. Sorted by that, or by `order`, in pages. A
   * session that goes on counts up to the last whole hour. Times are UTC. `Accept: text/csv` or `format=csv` gets a
   * table for spreadsheets.
   */
  "GET /api/v1/usage": {
    query?: {
      /** The first day or hour. By default the first day of the month of `to`. */
      from?: string | undefined;
      /** The day or hour after the last one, at most 92 days after `from`. Default: now. */
      to?: string | undefined;
      /** What the sums are by. */
      by?: "tenant" | "workload" | "day" | undefined;
      /** Only this tenant's. */
      tenant?: string | undefined;
      /** Only these tenants, at most 100, separated by commas. */
      tenants?: string | undefined;
      /** Only tenants whose ids begin with this. */
      prefix?: string | undefined;
      /**
       * Sorted by this, the greatest first. All sums are added up for each page, so a page can repeat or miss what
       * has moved since the page before; at most 100000 sums can be sorted.
       */
      order?: "sessions" | "seconds" | "vcpuSeconds" | "mibSeconds" | "snapshotByteHours" | undefined;
      /** Maximum number of sums. */
      limit?: number | undefined;
      /** Only sums after this one, which x-tenancy-next returns. */
      after?: string | undefined;
      /** By default what `Accept` asks for. */
      format?: "json" | "csv" | undefined;
    };
    answer: Usage[];
  };
  /** This document. */
  "GET /api/v1/openapi.json": {
    answer: Record<string, unknown>;
  };
  /** This document as a page. */
  "GET /docs": {
    answer: Response;
  };
}
