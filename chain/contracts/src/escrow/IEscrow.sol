// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

/// @title What the escrow of hires knows, does, tells and refuses.
/// @notice Amounts are in base units of the job's token, times in Unix seconds, windows in seconds, shares in basis
/// points (1/10,000). A thing that has a deadline can be done strictly before it; what follows can be done from that very
/// second on. So there is never a second in which both or neither can be done.
interface IEscrow {
    /// @notice Where a job stands. The last four are final.
    enum Status {
        None,
        Open,
        Active,
        Submitted,
        RejectedPending,
        Disputed,
        Completed,
        Rejected,
        Cancelled,
        Expired
    }

    /// @notice What a rejection accuses the work of.
    enum Violation {
        None,
        Quality,
        Falsified
    }

    /// @notice How a job ended.
    enum Outcome {
        None,
        Approved,
        ReviewSilence,
        RejectionStood,
        RuledForWorker,
        RuledForCreator,
        ArbitrationSilence,
        NoDelivery,
        Cancelled,
        NeverActivated
    }

    /// @notice What is to be done next.
    enum Action {
        None,
        SelectWorker,
        CancelTask,
        SubmitWork,
        SettleMissedDelivery,
        ApproveOrReject,
        CompleteAfterSilence,
        DisputeOrWait,
        SettleRejection,
        Rule,
        SettleArbitrationTimeout
    }

    /// @notice What creator and worker agree to. Every field is part of the job's id, so none can change.
    struct Terms {
        address creator;
        address approver;
        address arbitrator;
        IERC20 token;
        uint128 reward;
        uint128 creatorBond;
        uint128 workerBond;
        uint64 deliveryDeadline;
        uint32 reviewWindow;
        uint32 disputeWindow;
        uint32 arbitrationWindow;
        uint16 feeBps; // of the reward, when it is paid
        uint16 forfeitBps; // of the creator's bond, for a late cancellation
        uint256 creatorAgentId; // zero if no agent stands behind the creator
        bytes32 termsHash; // of the frozen offer
        bytes32 salt;
    }

    /// @notice The creator's word that a worker may activate a job. Signed as EIP-712 typed data.
    struct Selection {
        bytes32 jobId;
        address worker;
        uint256 workerAgentId;
        uint64 activateBy;
        uint64 nonce; // higher than that of the last selection on record
    }

    /// @notice A job as it is stored.
    struct Job {
        address creator;
        uint64 publishedAt;
        Status status;
        Violation violation;
        uint16 feeBps;
        address worker; // once selected
        uint64 clock; // when the present status began
        uint32 seq; // of the job's last event
        address arbitrator;
        uint32 reviewWindow;
        uint32 disputeWindow;
        uint32 arbitrationWindow;
        IERC20 token;
        uint64 deliveryDeadline;
        uint16 forfeitBps;
        address approver;
        uint64 activateBy;
        uint32 pausesBefore; // pauses that had ended when the job was activated
        uint128 reward;
        uint128 creatorBond;
        address treasury;
        uint64 selectionNonce;
        uint128 workerBond;
        uint256 workerAgentId;
    }

    /// @notice Who got how much. The parts add up to what the job held.
    struct Split {
        uint256 toWorker;
        uint256 toCreator;
        uint256 toTreasury;
        uint256 burned;
    }

    /// @notice A call that its signer has somebody else send. Signed as EIP-712 typed data.
    struct Call {
        address signer;
        bytes data;
        uint256 nonce; // any number not used before; they need no order
        uint256 deadline;
    }

    // Every event of a job carries the job's seq: 1, 2, 3 …, so that who reads them knows that none is missing.
    event JobPublished(bytes32 indexed jobId, address indexed creator, uint32 seq, address treasury, Terms terms);
    event WorkerSelected(
        bytes32 indexed jobId,
        address indexed worker,
        uint32 seq,
        uint256 workerAgentId,
        uint64 activateBy,
        uint64 nonce
    );
    event JobActivated(
        bytes32 indexed jobId, address indexed worker, uint32 seq, uint256 workerAgentId, uint64 deliveryDeadline
    );
    event WorkSubmitted(
        bytes32 indexed jobId, address indexed worker, uint32 seq, bytes32 deliverableHash, uint64 reviewEndsAt
    );
    event WorkRejected(
        bytes32 indexed jobId,
        address indexed approver,
        uint32 seq,
        Violation violation,
        bytes32 reasonHash,
        uint64 disputeEndsAt
    );
    event RejectionDisputed(
        bytes32 indexed jobId, address indexed worker, uint32 seq, bytes32 statementHash, uint64 arbitrationEndsAt
    );
    event JobRuled(bytes32 indexed jobId, address indexed arbitrator, uint32 seq, bool forWorker, bytes32 rulingHash);
    event JobEnded(bytes32 indexed jobId, Outcome indexed outcome, uint32 seq, Status status, Split split);
    event Paid(bytes32 indexed jobId, address indexed to, uint32 seq, address token, uint256 amount);
    event PayoutDeferred(bytes32 indexed jobId, address indexed to, uint32 seq, address token, uint256 amount);
    event PayoutRecovered(
        bytes32 indexed jobId, address indexed owner, uint32 seq, address token, uint256 amount, address to
    );

    event CallNonceUsed(address indexed signer, uint256 nonce);
    event TokenSet(address indexed token, bool listed, uint128 creatorBondFloor, uint128 workerBondFloor);
    event FeesSet(uint16 feeBps, uint16 forfeitBps);
    event TreasurySet(address treasury);
    event Paused(uint64 since);
    event Resumed(uint64 since);

    error BadTerms(string field);
    error BadSelection(string field);
    error BadSetting(string field);
    error JobExists(bytes32 jobId);
    error WrongStatus(bytes32 jobId, Status have);
    error NotActor(address caller);
    error Conflict(address account);
    error WalletMismatch(uint256 agentId, address wallet);
    error AlreadySelected(uint64 until);
    error TooLate(uint256 deadline);
    error TooEarly(uint64 notBefore);
    error TokenNotListed(address token);
    error ShortTransfer(uint256 want, uint256 got);
    error BadSignature();
    error NonceReused(uint256 nonce);
    error NotRelayable(bytes4 selector);
    error RelayInRelay();
    error NothingOwed(address owner, address token);
    error StillRefused(address owner, address token);
    error MoreGas(uint256 need);
    error PublishingPaused();

    /// @notice The id of a job: the hash of chain, contract and terms. It is known before anything is sent.
    function jobIdOf(Terms calldata terms) external view returns (bytes32);

    /// @notice Publishes a job and takes reward and creator's bond out of the creator's allowance.
    function publish(Terms calldata terms) external returns (bytes32 jobId);

    /// @notice The same with a permit (ERC-2612) of reward and bond together.
    function publishWithPermit(Terms calldata terms, uint256 deadline, uint8 v, bytes32 r, bytes32 s)
        external
        returns (bytes32 jobId);

    /// @notice The same by anyone who brings the creator's authorization (ERC-3009, to receive) with the job's id as nonce.
    function publishWithAuthorization(
        Terms calldata terms,
        uint256 validAfter,
        uint256 validBefore,
        bytes calldata signature
    ) external returns (bytes32 jobId);

    /// @notice Puts a selection on record. Until its activateBy no other worker can be selected, and if the creator
    /// cancels, what is forfeited goes to this one. Anyone may bring the creator's signature; the creator needs none.
    function select(Selection calldata selection, bytes calldata signature) external;

    /// @notice The worker takes the job on and puts up its bond. From here on it is liable for delivery.
    /// @param signature the creator's, of the selection; not looked at if that is on record
    function activate(Selection calldata selection, bytes calldata signature) external;

    function activateWithPermit(
        Selection calldata selection,
        bytes calldata signature,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external;

    /// @notice The same by anyone who brings the worker's authorization of the bond with activationNonce as nonce.
    function activateWithAuthorization(
        Selection calldata selection,
        bytes calldata signature,
        uint256 validAfter,
        uint256 validBefore,
        bytes calldata authorization
    ) external;

    /// @notice The nonce of the ERC-3009 authorization with which a worker activates: good for this job, by this agent,
    /// and nothing else.
    function activationNonce(bytes32 jobId, address worker, uint256 workerAgentId) external pure returns (bytes32);

    /// @notice The worker delivers, once and for all.
    function submit(bytes32 jobId, bytes32 deliverableHash) external;

    function approve(bytes32 jobId) external;

    function reject(bytes32 jobId, Violation violation, bytes32 reasonHash) external;

    function dispute(bytes32 jobId, bytes32 statementHash) external;

    /// @notice The arbitrator decides: the worker is paid, or the rejection is upheld with the violation it named.
    function rule(bytes32 jobId, bool forWorker, bytes32 rulingHash) external;

    /// @notice The creator withdraws a job that nobody has activated.
    function cancel(bytes32 jobId) external;

    /// @notice Does what a deadline that has passed asks for. Anyone may.
    function settle(bytes32 jobId) external;

    /// @notice Tries again to pay what could not be paid to an account, oldest first, at most max items. Anyone may.
    function recover(IERC20 token, address owner, uint256 max) external;

    /// @notice The caller draws what could not be paid to it, oldest first, at most max items, to another account.
    function withdraw(IERC20 token, address to, uint256 max) external returns (uint256 amount);

    /// @notice Makes a call of which the signer signed everything.
    function relay(Call calldata call, bytes calldata signature) external;

    /// @notice Makes a signed call of the caller useless before its deadline.
    function cancelCall(uint256 nonce) external;

    function job(bytes32 jobId) external view returns (Job memory);

    /// @notice Who is to do what next, and strictly before when.
    /// @return action None if the job is final or unknown
    /// @return actor zero if anyone may
    /// @return deadline zero if there is none because it has passed
    function next(bytes32 jobId) external view returns (Action action, address actor, uint64 deadline);

    /// @notice What could not be paid to an account yet.
    /// @return amount the sum
    /// @return items how many payouts it is made of
    function owed(address owner, IERC20 token) external view returns (uint256 amount, uint256 items);

    /// @notice What the contract holds for jobs and owed payouts; its balance is never less.
    function locked(IERC20 token) external view returns (uint256);
}
