// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IEscrow} from "./escrow/IEscrow.sol";
import {IdentityRegistry} from "./IdentityRegistry.sol";

/// @title What clients say about agents (ERC-8004), and which of it was paid for.
/// @notice Anyone may leave feedback; it is kept and shown. It counts only if it names a job in the escrow that the same
/// client paid that agent for, and each job counts once. Accounts alone have no weight. That payer and agent are not
/// the same person, no contract can tell: readers should weigh what was paid.
contract ReputationRegistry {
    struct Feedback {
        int128 value;
        uint8 valueDecimals;
        bool revoked;
        bytes32 jobId; // zero where nothing proves a payment
        string tag1;
        string tag2;
    }

    /// @dev What a client hands in, so that functions keep few arguments.
    struct Submission {
        uint256 agentId;
        int128 value;
        uint8 valueDecimals;
        string tag1;
        string tag2;
        string endpoint;
        string feedbackURI;
        bytes32 feedbackHash;
    }

    int128 private constant MAX_VALUE = 1e38;
    uint8 private constant MAX_DECIMALS = 18;

    IdentityRegistry private immutable _identity;
    IEscrow public immutable escrow;

    mapping(uint256 agentId => mapping(address client => Feedback[])) private _feedback;
    mapping(uint256 agentId => address[]) private _clients;
    mapping(bytes32 entry => mapping(address responder => uint64 count)) private _responses;
    mapping(bytes32 entry => address[]) private _responders;

    /// @notice Whether feedback for a job was given.
    mapping(bytes32 jobId => bool) public jobRated;

    event NewFeedback(
        uint256 indexed agentId,
        address indexed clientAddress,
        uint64 feedbackIndex,
        int128 value,
        uint8 valueDecimals,
        string indexed indexedTag1,
        string tag1,
        string tag2,
        string endpoint,
        string feedbackURI,
        bytes32 feedbackHash
    );
    event FeedbackRevoked(uint256 indexed agentId, address indexed clientAddress, uint64 indexed feedbackIndex);
    event ResponseAppended(
        uint256 indexed agentId,
        address indexed clientAddress,
        uint64 feedbackIndex,
        address indexed responder,
        string responseURI,
        bytes32 responseHash
    );
    /// @notice Follows the NewFeedback that counts.
    event FeedbackPaid(
        uint256 indexed agentId, address indexed clientAddress, uint64 feedbackIndex, bytes32 indexed jobId
    );

    error OwnFeedback(address client, uint256 agentId);
    error ValueOutOfRange(int128 value);
    error TooManyDecimals(uint8 decimals);
    error NotPaid(bytes32 jobId, address client, uint256 agentId);
    error JobRated(bytes32 jobId);
    error UnknownFeedback(uint256 agentId, address client, uint64 index);
    error AlreadyRevoked(uint256 agentId, address client, uint64 index);
    error NoClients();

    constructor(IdentityRegistry identity, IEscrow escrow_) {
        _identity = identity;
        escrow = escrow_;
    }

    /// @notice Leaves feedback that is kept and shown, and does not count.
    function giveFeedback(
        uint256 agentId,
        int128 value,
        uint8 valueDecimals,
        string calldata tag1,
        string calldata tag2,
        string calldata endpoint,
        string calldata feedbackURI,
        bytes32 feedbackHash
    ) external {
        _give(Submission(agentId, value, valueDecimals, tag1, tag2, endpoint, feedbackURI, feedbackHash), bytes32(0));
    }

    /// @notice Leaves feedback on the work of a job, which counts.
    /// @param jobId a job that ended completed, that the caller created and the agent worked
    function giveFeedbackForJob(bytes32 jobId, Submission calldata s) external {
        if (jobRated[jobId]) revert JobRated(jobId);
        IEscrow.Job memory j = escrow.job(jobId);
        if (j.status != IEscrow.Status.Completed || j.creator != msg.sender || j.workerAgentId != s.agentId) {
            revert NotPaid(jobId, msg.sender, s.agentId);
        }
        jobRated[jobId] = true;
        uint64 index = _give(s, jobId);
        emit FeedbackPaid(s.agentId, msg.sender, index, jobId);
    }

    function revokeFeedback(uint256 agentId, uint64 index) external {
        Feedback storage f = _at(agentId, msg.sender, index);
        if (f.revoked) revert AlreadyRevoked(agentId, msg.sender, index);
        f.revoked = true;
        emit FeedbackRevoked(agentId, msg.sender, index);
    }

    /// @notice Answers feedback; anyone may, and as often as they like.
    function appendResponse(
        uint256 agentId,
        address client,
        uint64 index,
        string calldata responseURI,
        bytes32 responseHash
    ) external {
        _at(agentId, client, index);
        bytes32 entry = _entry(agentId, client, index);
        if (_responses[entry][msg.sender]++ == 0) _responders[entry].push(msg.sender);
        emit ResponseAppended(agentId, client, index, msg.sender, responseURI, responseHash);
    }

    /// @notice The average of what counts: given for a paid job and not revoked.
    /// @param clients whose feedback to read; must not be empty. It reads all they ever gave: for calls, not for contracts
    /// @param tag1 only feedback with this tag; the empty string is any
    /// @return count how many count
    /// @return value the average, rounded towards zero, in the number of decimals that occurs most
    function getSummary(uint256 agentId, address[] calldata clients, string calldata tag1, string calldata tag2)
        external
        view
        returns (uint64 count, int128 value, uint8 valueDecimals)
    {
        if (clients.length == 0) revert NoClients();
        int256 sum;
        uint64[MAX_DECIMALS + 1] memory seen;
        for (uint256 i = 0; i < clients.length; i++) {
            Feedback[] storage given = _feedback[agentId][clients[i]];
            for (uint256 k = 0; k < given.length; k++) {
                Feedback storage f = given[k];
                if (f.revoked || f.jobId == 0 || !_matches(f, tag1, tag2)) continue;
                sum += int256(f.value) * int256(10 ** (MAX_DECIMALS - f.valueDecimals));
                seen[f.valueDecimals]++;
                count++;
            }
        }
        if (count == 0) return (0, 0, 0);
        valueDecimals = _mostFrequent(seen);
        value = int128(sum / int256(uint256(count)) / int256(10 ** (MAX_DECIMALS - valueDecimals)));
    }

    function readFeedback(uint256 agentId, address client, uint64 index)
        external
        view
        returns (int128 value, uint8 valueDecimals, string memory tag1, string memory tag2, bool isRevoked)
    {
        Feedback storage f = _at(agentId, client, index);
        return (f.value, f.valueDecimals, f.tag1, f.tag2, f.revoked);
    }

    /// @notice The job that proves a payment for this feedback; zero if none does.
    function jobOf(uint256 agentId, address client, uint64 index) external view returns (bytes32) {
        return _at(agentId, client, index).jobId;
    }

    /// @notice All feedback of one client on an agent, counted or not, in the order it was given.
    function readAllFeedback(uint256 agentId, address client) external view returns (Feedback[] memory) {
        return _feedback[agentId][client];
    }

    /// @param responders whose responses to count; if empty, everybody's
    function getResponseCount(uint256 agentId, address client, uint64 index, address[] calldata responders)
        external
        view
        returns (uint64 count)
    {
        _at(agentId, client, index);
        bytes32 entry = _entry(agentId, client, index);
        address[] memory counted = responders;
        if (counted.length == 0) counted = _responders[entry];
        for (uint256 i = 0; i < counted.length; i++) {
            count += _responses[entry][counted[i]];
        }
    }

    function getClients(uint256 agentId) external view returns (address[] memory) {
        return _clients[agentId];
    }

    /// @notice The index of a client's last feedback on an agent; they begin with 1.
    function getLastIndex(uint256 agentId, address client) external view returns (uint64) {
        return uint64(_feedback[agentId][client].length);
    }

    function getIdentityRegistry() external view returns (address) {
        return address(_identity);
    }

    function _give(Submission memory s, bytes32 jobId) private returns (uint64 index) {
        if (s.valueDecimals > MAX_DECIMALS) revert TooManyDecimals(s.valueDecimals);
        if (s.value > MAX_VALUE || s.value < -MAX_VALUE) revert ValueOutOfRange(s.value);
        if (_identity.isAuthorizedOrOwner(msg.sender, s.agentId)) revert OwnFeedback(msg.sender, s.agentId);
        Feedback[] storage given = _feedback[s.agentId][msg.sender];
        if (given.length == 0) _clients[s.agentId].push(msg.sender);
        given.push(Feedback(s.value, s.valueDecimals, false, jobId, s.tag1, s.tag2));
        index = uint64(given.length);
        _announce(s, index);
    }

    function _announce(Submission memory s, uint64 index) private {
        emit NewFeedback(
            s.agentId,
            msg.sender,
            index,
            s.value,
            s.valueDecimals,
            s.tag1,
            s.tag1,
            s.tag2,
            s.endpoint,
            s.feedbackURI,
            s.feedbackHash
        );
    }

    function _at(uint256 agentId, address client, uint64 index) private view returns (Feedback storage) {
        Feedback[] storage given = _feedback[agentId][client];
        if (index == 0 || index > given.length) revert UnknownFeedback(agentId, client, index);
        return given[index - 1];
    }

    function _matches(Feedback storage f, string calldata tag1, string calldata tag2) private view returns (bool) {
        return (bytes(tag1).length == 0 || keccak256(bytes(tag1)) == keccak256(bytes(f.tag1)))
            && (bytes(tag2).length == 0 || keccak256(bytes(tag2)) == keccak256(bytes(f.tag2)));
    }

    function _mostFrequent(uint64[MAX_DECIMALS + 1] memory seen) private pure returns (uint8 most) {
        for (uint8 d = 1; d <= MAX_DECIMALS; d++) {
            if (seen[d] > seen[most]) most = d;
        }
    }

    function _entry(uint256 agentId, address client, uint64 index) private pure returns (bytes32) {
        return keccak256(abi.encode(agentId, client, index));
    }
}
