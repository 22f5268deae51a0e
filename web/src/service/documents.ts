// The service's documents as far as the page reads them (service/documents; the reference is /docs). null: not known.
export type Figure = number | null;

export interface Watermark {
  kmin_bytes: number;
  kmax_bytes: number;
  pmax: number;
}

export interface Slowdown {
  n: number;
  mean: Figure;
  p99: Figure;
}

// One full packet that crosses at a random moment.
export interface Probe {
  n: number;
  p50: Figure;
  p99: Figure;
}

export type ScoreName = "gain" | "normalised";

// Its parts, weighed; more is better in each.
export interface GainParts {
  bulk: Figure;
  delay: Figure;
  harm: Figure;
}

export interface Policy {
  name: string;
  bulk: number;
  delay: number;
  harm_price: number;
  probe?: number; // older rounds lack it: mice and probe alike
}

// What older rounds lack is optional.
export interface Prediction extends Watermark {
  status: string;
  status_detail: string;
  queue_mean_bytes: Figure;
  queue_p99_bytes: Figure;
  queue_peak_bytes: Figure;
  goodput_gbps: Figure;
  marked_fraction: Figure;
  loss_bytes: Figure;
  pfc_pause_s: Figure;
  slowdown: { mice: Slowdown; elephant: Slowdown } & Record<string, Slowdown>;
  probe_slowdown?: Probe;
  probe_by_path?: Record<string, Probe>;
  paused_share?: Figure;
  loss_share?: Figure;
  score: Figure;
  score_error?: Figure;
  score_normalised?: Figure;
  gain?: GainParts | null;
}

export interface Candidate extends Prediction {
  origin: string;
  source: string;
  window_s: number;
  seeds: number;
  raw: Record<string, Figure>;
  terms: Record<string, Figure>;
}

export interface SecondOpinion {
  engine: string;
  seeds: number;
  window_s: number;
  cut: boolean;
  decided: boolean;
  first_pick: Watermark;
  pick: Watermark;
  changed_pick: boolean;
  disagreement_ratio: Figure;
  disagreement: Record<string, Figure>;
  margin: number;
  disagrees: boolean;
  sentence: string;
  candidates: { first: Prediction; second: Prediction }[];
}

export interface Part {
  name: string;
  flows: number;
  ports: string[];
  traffic_share: Figure;
  recommendation: Watermark;
  score_gain: Figure;
  verdict: string;
  sentence: string;
}

export interface Trajectories {
  window_s: number;
  step_s: number;
  queues: { switch: string; port: string; incumbent_bytes: number[]; recommended_bytes: number[] }[];
}

// "outdated" is the page's own word: kept before other watermarks were set.
export type Decision = "pending" | "kept" | "approved" | "rejected" | "superseded" | "expired" | "rolled_back" | "outdated";
export type FlowClass = "elephant" | "potential_elephant" | "mouse";

export interface Recommendation {
  id: string;
  created: string;
  status: Decision;
  decided_by: string | null;
  decided_at: string | null;
  recommendation: Prediction;
  incumbent: Prediction;
  changes: boolean;
  verdict: string;
  why: string;
  remarks: string[];
  notes: string[];
  left_out: string[];
  improvement: {
    best: Watermark;
    score_gain: Figure;
    score_error?: Figure;
    alike?: number;
    margin: number;
    relative: Record<string, Figure>;
  };
  dominant_class: FlowClass;
  lambda: number;
  flows: Record<FlowClass, number>;
  measured: { queue_mean_bytes: Figure; predicted_queue_mean_bytes?: Figure; residual_ratio: Figure };
  throughput_is: string;
  queue_is: string;
  score_is?: ScoreName;
  policy?: Policy | null;
  weights: Record<string, number> | null;
  candidate_count: number;
  candidates: Candidate[];
  parts: Part[];
  second_opinion: SecondOpinion | null;
  trajectories: Trajectories | null;
  co_tuning?: CoTuning | null;
  paths?: Paths | null;
  engine: string;
  seed: number;
  version: string;
  wall_s: number;
  staged: Watermark | null;
  switches: string[];
  holds: string[];
  expired?: { at: string; reason: string } | null;
  advice?: { at: string; version?: number | null; watermark: Watermark | null; why: string } | null; // of this moment's traffic, in the current one
  blocked?: { reason: string; until: string | null }[];
  caution: string | null;
  support?: Support | null;
  rollout: string | null;
  sets?: string[]; // watermark, and nic and roles where these were approved too
  nics_refused?: string | null;
  roles_refused?: string | null;
  pushed: { switch: string; writes: boolean; diff: string; read_back: Watermark | null }[];
}

// The best found where more than the watermark may be set; gains are over what runs now, of sensitivities over the
// watermark alone. Values are null for off, and of the watermark.
export interface CoTuning {
  recommended: boolean;
  sentence: string;
  watermark: Watermark;
  changes: { name: string; kind: "watermark" | "roles" | "nic"; unit: string; before: Figure; after: Figure; share: Figure }[];
  by_role?: (Watermark & { role: string })[]; // roles whose ports get another watermark
  connectx: Record<string, number>;
  connectx_by_class?: Record<string, Record<string, number>>; // classes of hosts that get other values
  gain: Figure;
  gain_error: Figure;
  alone: Figure;
  more: Figure;
  more_error: Figure;
  second_more: Figure;
  sensitivities: { name: string; unit: string; before: Figure; best: Figure; gain: Figure; worst: Figure }[];
  runs: number;
  traffic_s: number;
}

// Elephants that share a port while an equal-cost one has room; moves and hash seeds are null where nothing was predicted.
export interface Paths {
  sentence: string;
  notes: string[];
  collisions: PathFix[];
  runs: number;
  traffic_s: number;
}

export interface PathFix {
  switch: string;
  sentence: string;
  ratio: Figure;
  ports: { port: string; rate_gbps: number; load_gbps: number; elephants: number }[];
  moved: {
    advised: boolean;
    moves: { src: string; dst: string; sport: number; dport: number; src_host: string; dst_host: string; before: string; after: string }[];
    times: Figure;
    times_error: Figure;
    first: PathGoodput;
    second: PathGoodput | null;
    gain: Figure;
    gain_error: Figure;
    second_gain: Figure;
  } | null;
  hashed: { seeds: number; times: Figure; times_spread: Figure; gain: Figure; gain_spread: Figure } | null;
}

export interface PathGoodput {
  engine: string;
  before_gbps: Figure;
  after_gbps: Figure;
  window_s: number;
}

// What stands behind a recommendation.
export interface Support {
  rounds: number;
  last: string;
  moments: number;
  traffic_s: number;
  hour_rounds: number;
  hour_agreeing: number;
  changed: string | null;
}

export interface Recommendations {
  total: number;
  recommendations: Recommendation[];
  next: string | null;
}

export interface Readiness {
  ready: boolean;
  reasons: string[];
  measured: boolean;
  stale: boolean; // too old for a round
  advice: string | null; // the id of the current recommendation
  version: string;
  scopes?: string[]; // the caller's
  storage?: { state: "ok" | "failing" | "memory"; waiting: number; says: string | null };
}

export interface Queue {
  switch: string;
  port: string;
  queue: number;
  samples: number;
  depth_mean_bytes: Figure;
  depth_p99_bytes: Figure;
  depth_max_bytes: Figure;
  marked_ratio: Figure;
  marked_packets_per_s: Figure;
  throughput_bytes_per_s: Figure;
  capacity_bytes_per_s: Figure;
}

// What the map draws of a queue, and as the service tells it of all: in columns, a value for each queue.
export type DrawnQueue = Pick<
  Queue,
  "switch" | "port" | "queue" | "depth_mean_bytes" | "depth_p99_bytes" | "marked_ratio" | "throughput_bytes_per_s" | "capacity_bytes_per_s"
>;
export type QueueColumns = { [Name in keyof Omit<DrawnQueue, "switch">]: DrawnQueue[Name][] } & {
  names: string[];
  switch: number[]; // places in names
};

export interface PortRates {
  switch: string;
  port: string;
  covered_s: number;
  pause_share: Figure;
  pfc_rx_frames_per_s: Figure;
  pfc_tx_frames_per_s: Figure;
  ecn_marked_per_s: Figure;
  cnp_per_s: Figure;
  drops_per_s: Figure;
  wred_drops_per_s: Figure;
}

export interface State {
  window_start: string;
  window_end: string;
  duration_s: number;
  reports: number;
  packet_bytes: number;
  topology: "declared" | "discovered";
  dominant_class: FlowClass;
  flows: Record<FlowClass, number>;
  bytes: Record<FlowClass, number>;
  mice_to_elephants: Figure;
  mice_to_elephants_bytes: Figure;
  flow_groups: number;
  receiver_count: number;
  incast: { receiver: string; degree: number; senders: number }[];
  queue_count: number;
  queues: Queue[];
  port_count: number;
  ports: PortRates[];
  age_s: Figure;
  stale: boolean;
}

export type ConditionLevel = "well" | "watch" | "bad";

export interface ConditionFigure {
  name: string;
  value: Figure;
  level: ConditionLevel;
  watch_from: Figure;
  bad_from: Figure;
  sentence: string;
  hour_median: Figure;
  hour: [at: string, value: number][];
}

export interface Condition {
  level: ConditionLevel | "unknown";
  sentence: string;
  as_of: string | null;
  figures: ConditionFigure[];
}

export interface Topology {
  hosts: { name: string; ip?: string }[];
  switches: { name: string }[];
  links: { a: string; a_port?: string; b: string; b_port?: string; rate_gbps?: number; delay_us?: number }[];
}

export interface Topologies {
  declared: Topology | null;
  discovered: Topology | null;
}

export interface Acknowledgement {
  by: string;
  at: string;
  note: string | null;
}

export interface Silence {
  id: string;
  kind: string | null;
  switch: string | null;
  until: string;
  by: string;
  note: string | null;
}

export interface Silences {
  silences: Silence[];
}

export interface AlarmSubject {
  subject: string;
  kind: string;
  switch: string | null;
  level: "warning" | "critical";
}

export interface Alarm {
  id: string;
  kind: string;
  subject: string;
  switch: string | null;
  level: "warning" | "critical";
  value: Figure;
  threshold: Figure;
  unit: "share" | "bytes" | "per_second" | "seconds" | "times" | "yes";
  since: string;
  seen: string;
  sentence: string;
  look: string;
  ended: string | null;
  why: string | null;
  subjects: AlarmSubject[];
  subject_count: number;
  incast: { receiver: string; senders: number; switch: string; port: string } | null;
  carried: boolean;
  acknowledged: Acknowledgement | null;
  silenced: Silence | null;
  group: string | null;
}

// Alarms that began at once.
export interface AlarmGroup {
  id: string;
  kinds: string[];
  level: "warning" | "critical";
  switches: string[];
  switch_count: number;
  alarm_count: number;
  open_count: number;
  sentence: string;
}

export interface Alarms {
  warning: number;
  critical: number;
  left_off: number;
  looked: string | null;
  alarms: Alarm[];
  ended: Alarm[] | null;
  acknowledged: number;
  silenced: number;
  open_warning: number; // neither acknowledged nor silenced
  open_critical: number;
  groups: AlarmGroup[];
  open_causes: number; // as those, a group counts once
  notes: string[]; // on conditions that watch nothing
}

export interface SwitchRead {
  name: string;
  reachable: boolean;
  detail: string | null;
  running: Watermark | null;
  differs: boolean; // its queues run different ones
  drifted: boolean;
}

export interface SwitchSettings {
  name: string;
  adapter: string;
  capabilities: { reads: boolean }; // false: what runs is from the settings
  writes: boolean;
  set_to: Watermark | null;
}

export type SwitchState = SwitchRead & SwitchSettings;

export interface SwitchQueues {
  name: string;
  running: Watermark | null;
  queues: ({ port: string; queue: number } & { [Key in keyof Watermark]: Figure })[];
}

export interface Freeze {
  frozen: boolean;
  by: string | null;
  at: string | null;
  unknown: string | null;
}

export interface FiguresSeen {
  queue_mean_bytes: Figure;
  throughput_bytes_per_s: Figure;
  pause_share: Figure;
  pfc_frames_per_s: Figure;
  drops_per_s: Figure;
}

export type Progress =
  | "waiting" | "staged" | "left_out" | "applying" | "applied" | "verified" | "set" | "restored" | "left_alone" | "given_up";

export interface SwitchProgress {
  switch: string;
  stage: number;
  writes: boolean;
  progress: Progress;
  target: Watermark;
  detail: string;
}

export interface SwitchMarks {
  switch: string;
  before: Watermark | null;
  after: Watermark | null;
  notes?: string[]; // where it was asked for
}

export type RolloutSwitch = SwitchProgress & SwitchMarks;

export interface RolloutHost {
  host: string;
  stage: number;
  writes: boolean;
  progress: Progress;
  target: Record<string, number>;
  diff: string;
  detail: string;
}

export interface RolloutHash {
  switch: string;
  writes: boolean;
  progress: Progress;
  target: string;
  before: string | null;
  detail: string;
}

export interface SwitchChange {
  diff: string;
  notes: string[];
}

export type Phase =
  | "proposed" | "approved" | "canary" | "soak" | "fleet" | "done" | "rolling_back" | "rolled_back";

export interface RolloutEvent {
  at: string;
  what: string;
  switch: string | null;
  detail: string;
}

// As looks ask for it of a list: hundreds of switches are counted, not told one by one.
export interface ListedRollout {
  id: string;
  recommendation: string; // empty of a change of the ECMP hash
  phase: Phase;
  ended: boolean;
  why: string | null;
  approved_by: string | null;
  frozen: boolean;
  stalled: string | null;
  proposed_at: string;
  since: string;
  stage: number;
  stages: string[][];
  phases: { at: string; phase: Phase }[];
  soak_s: number;
  soak_from: string | null;
  seen: FiguresSeen | null;
  before: FiguresSeen;
  predicted: FiguresSeen;
  summary: {
    switches: number;
    written: number;
    progress: Partial<Record<Progress, number>>;
    written_progress: Partial<Record<Progress, number>>;
    target: Watermark | null;
    hosts?: number; // and so on: since NICs are set too
    hosts_written?: number;
    hosts_progress?: Partial<Record<Progress, number>>;
  };
  hashes?: RolloutHash[]; // of the switches of which what they hash flows by is set, in place of watermarks
}

export interface Rollouts {
  rollouts: ListedRollout[];
}

export interface WhatIf {
  engine: string;
  seed: number;
  wall_s: number;
  window_s: number;
  age_s: Figure;
  score_is?: ScoreName;
  incumbent: Prediction | null;
  results: Prediction[];
  trajectories: {
    window_s: number;
    step_s: number;
    queues: { switch: string; port: string; incumbent_bytes: number[] | null; results_bytes: number[][] }[];
  } | null;
  notes: string[];
}

export interface PredictedFigures {
  queue_mean_bytes: Figure;
  queue_p99_bytes: Figure;
  queue_peak_bytes: Figure;
  goodput_gbps: Figure;
  marked_fraction: Figure;
}

export interface MeasuredFigures {
  since: string;
  until: string;
  step_s: number;
  steps: number;
  ports: number;
  queue_mean_bytes: Figure;
  queue_max_bytes: Figure;
  throughput_bytes_per_s: Figure;
  marked_packets_per_s: Figure;
  pause_share: Figure;
}

export interface Outcome {
  id: string;
  rollout: string | null;
  phase: Phase | null;
  switches: string[];
  since: string | null;
  until: string | null;
  predicted: { incumbent: PredictedFigures; recommended: PredictedFigures; queue_change: Figure };
  before: MeasuredFigures | null;
  after: MeasuredFigures | null;
  queue_change: Figure;
  residual_ratio: Figure;
  gain?: GainSeen | null;
}

// What a rollout was predicted to gain, and what was measured after it.
export interface GainSeen {
  at: string;
  recommendation: string;
  policy: string;
  predicted: Figure;
  predicted_error: Figure;
  measured: Figure;
  measured_error: Figure;
  why: string | null; // the measurement ended early
}

export interface Gains {
  gains: GainSeen[]; // the newest first
}

// What the advice of a day's rounds was worth, by the twin.
export interface AdviceDay {
  day: string;
  rounds: number;
  advised: number;
  gain: number;
  gain_error: Figure;
}

export interface AdviceDays {
  days: AdviceDay[]; // the oldest first
}

export interface Residual {
  at: string;
  recommendation: string;
  predicted_bytes: Figure;
  measured_bytes: Figure;
  residual_ratio: Figure;
}

export interface Residuals {
  limit: number; // nothing is pushed where predicted and measured differ by more than this factor
  residuals: Residual[];
}

export interface PortHistory {
  switch: string;
  port: string;
  at: string[];
  depth_bytes: Figure[];
  depth_max_bytes: Figure[];
  throughput_bytes_per_s: Figure[];
  marked_packets_per_s: Figure[];
  pause_share: Figure[];
}

export interface QueueHistory {
  since: string;
  until: string;
  step_s: number;
  queues: PortHistory[];
}

export interface ForecastPath {
  at: string[];
  throughput_bytes_per_s: Figure[];
  low_bytes_per_s: Figure[];
  high_bytes_per_s: Figure[];
}

export interface Forecasts {
  why: string | null;
  ports: { why: string | null; method: string | null; error_bytes_per_s: Figure; path: ForecastPath | null }[];
}

export interface PastAlarm {
  id: string;
  kind: string;
  subject: string;
  switch: string | null;
  level: "warning" | "critical";
  sentence: string;
  raised: string;
  ended: string | null;
  why: string | null;
  subjects: string[];
  subject_count: number;
  receiver: string | null;
  acknowledged: Acknowledgement | null;
}

export interface PastAlarms {
  alarms: PastAlarm[];
}
