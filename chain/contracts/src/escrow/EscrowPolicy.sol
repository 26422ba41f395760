// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Ownable, Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {IEscrow} from "./IEscrow.sol";

/// @title What holds for jobs that are published from now on.
/// @notice The owner sets it. A job copies what it needs when it is published and never looks again. A pause stops
/// publishing; to jobs that exist it does one thing, which is to excuse a worker that did not deliver during it.
abstract contract EscrowPolicy is IEscrow, Ownable2Step {
    struct TokenRule {
        bool listed;
        uint128 creatorBondFloor;
        uint128 workerBondFloor;
    }

    /// @notice The shortest windows; longer where money is real.
    struct Minimums {
        uint32 review;
        uint32 dispute;
        uint32 arbitration;
    }

    uint16 public constant MAX_FEE_BPS = 1000;
    uint16 public constant MAX_FORFEIT_BPS = 5000;
    uint32 public constant MAX_WINDOW = 14 days;
    uint64 public constant MAX_DELIVERY = 365 days;

    uint32 public immutable minReviewWindow;
    uint32 public immutable minDisputeWindow;
    uint32 public immutable minArbitrationWindow;

    uint16 public feeBps = 250;
    uint16 public forfeitBps = 2500;
    address public treasury;
    bool public paused;
    uint64[] private _pauseStarts;

    mapping(IERC20 => TokenRule) public tokenRule;

    constructor(address owner_, address treasury_, Minimums memory minimums) Ownable(owner_) {
        _checkMinimum(minimums.review, "minimums.review");
        _checkMinimum(minimums.dispute, "minimums.dispute");
        _checkMinimum(minimums.arbitration, "minimums.arbitration");
        minReviewWindow = minimums.review;
        minDisputeWindow = minimums.dispute;
        minArbitrationWindow = minimums.arbitration;
        _setTreasury(treasury_);
    }

    /// @notice Lists a token, or takes it off the list, with the least bonds in it.
    function setToken(IERC20 token, TokenRule calldata r) external onlyOwner {
        if (address(token).code.length == 0) revert BadSetting("token");
        tokenRule[token] = r;
        emit TokenSet(address(token), r.listed, r.creatorBondFloor, r.workerBondFloor);
    }

    function setFees(uint16 feeBps_, uint16 forfeitBps_) external onlyOwner {
        if (feeBps_ > MAX_FEE_BPS) revert BadSetting("feeBps");
        if (forfeitBps_ > MAX_FORFEIT_BPS) revert BadSetting("forfeitBps");
        (feeBps, forfeitBps) = (feeBps_, forfeitBps_);
        emit FeesSet(feeBps_, forfeitBps_);
    }

    function setTreasury(address treasury_) external onlyOwner {
        _setTreasury(treasury_);
    }

    function pause() external onlyOwner {
        if (paused) revert BadSetting("paused");
        paused = true;
        _pauseStarts.push(uint64(block.timestamp));
        emit Paused(uint64(block.timestamp));
    }

    function resume() external onlyOwner {
        if (!paused) revert BadSetting("paused");
        paused = false;
        emit Resumed(uint64(block.timestamp));
    }

    function _setTreasury(address treasury_) private {
        if (treasury_ == address(0) || treasury_ == address(this)) revert BadSetting("treasury");
        treasury = treasury_;
        emit TreasurySet(treasury_);
    }

    function _checkMinimum(uint32 seconds_, string memory field) private pure {
        if (seconds_ == 0 || seconds_ > MAX_WINDOW) revert BadSetting(field);
    }

    /// @dev Refuses terms that do not hold at present. The fee and the share that is forfeited stand in the terms, and
    /// must be those of today: who signs terms knows them, and who sets them cannot change them behind a signature.
    function _checkTerms(Terms calldata t) internal view {
        if (paused) revert PublishingPaused();
        _checkPeople(t);
        _checkMoney(t);
        if (t.deliveryDeadline <= block.timestamp || t.deliveryDeadline > block.timestamp + MAX_DELIVERY) {
            revert BadTerms("deliveryDeadline");
        }
        if (t.reviewWindow < minReviewWindow || t.reviewWindow > MAX_WINDOW) revert BadTerms("reviewWindow");
        if (t.disputeWindow < minDisputeWindow || t.disputeWindow > MAX_WINDOW) revert BadTerms("disputeWindow");
        if (t.arbitrationWindow < minArbitrationWindow || t.arbitrationWindow > MAX_WINDOW) {
            revert BadTerms("arbitrationWindow");
        }
    }

    function _checkPeople(Terms calldata t) private view {
        if (t.creator == address(0) || t.creator == address(this)) revert BadTerms("creator");
        if (t.approver == address(0)) revert BadTerms("approver");
        if (t.arbitrator == address(0)) revert BadTerms("arbitrator");
        if (t.arbitrator == t.creator || t.arbitrator == t.approver) revert Conflict(t.arbitrator);
    }

    function _checkMoney(Terms calldata t) private view {
        TokenRule storage r = tokenRule[t.token];
        if (!r.listed) revert TokenNotListed(address(t.token));
        if (t.reward == 0) revert BadTerms("reward");
        if (t.creatorBond < r.creatorBondFloor) revert BadTerms("creatorBond");
        if (t.workerBond < r.workerBondFloor) revert BadTerms("workerBond");
        if (t.feeBps != feeBps) revert BadTerms("feeBps");
        if (t.forfeitBps != forfeitBps) revert BadTerms("forfeitBps");
    }

    /// @dev How many pauses have ended, which a job remembers when it is activated.
    function _pausesEnded() internal view returns (uint32) {
        return uint32(paused ? _pauseStarts.length - 1 : _pauseStarts.length);
    }

    /// @dev Whether there was a pause at any second between activation and deadline: the first that had not ended at
    /// activation is the only one to look at, for the others began later.
    function _pausedBetween(uint32 pausesBefore, uint64 deadline) internal view returns (bool) {
        return _pauseStarts.length > pausesBefore && _pauseStarts[pausesBefore] < deadline;
    }
}
