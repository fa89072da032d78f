//! What a pursuit answers.

/// The memories selected, in entry order. The first k of a path are the path of budget k.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Path {
    /// Positions in the pool.
    pub order: Vec<u32>,
    /// The float64 value that each step maximised: the alignment of the candidate with the residual.
    pub scores: Vec<f64>,
    /// Weights of the last refit, on the simplex, in entry order. A selected memory may weigh 0.
    pub weights: Vec<f64>,
    /// The number of steps after which no candidate could improve the fit any more (certificate 0), where the
    /// pursuit came to know it: before its last step, or with a trace, or with the whole pool selected.
    pub optimum: Option<usize>,
    /// The number of steps after which the adaptive stop fired.
    pub stopped: Option<usize>,
    /// One entry a step, where [`Options::trace`](super::Options::trace) asked for it.
    pub trace: Vec<Step>,
}

/// One step of the pursuit, after its refit.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Position in the pool of the memory that entered.
    pub index: u32,
    /// Its alignment with the residual before the step.
    pub score: f64,
    /// Norm of the residual, from the explicit vector.
    pub residual: f64,
    /// J = ½‖r‖² + ½λ‖α‖².
    pub objective: f64,
    /// By how much this step lowered the objective; the first step, from J = ½‖q‖², can raise it.
    pub reduction: f64,
    /// ν = q̂·r - λ‖α‖² (Eq. 14), q̂ the reconstruction.
    pub nu: f64,
    /// g = max(0, best unselected alignment - ν): J exceeds the optimum over the whole pool by at most this.
    pub certificate: f64,
    /// The weights, in entry order.
    pub weights: Vec<f64>,
}
