// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Check} from "./Check.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Escrow, IAgentWallets} from "../../src/escrow/Escrow.sol";
import {EscrowPolicy} from "../../src/escrow/EscrowPolicy.sol";
import {IEscrow} from "../../src/escrow/IEscrow.sol";
import {IdentityRegistry} from "../../src/IdentityRegistry.sol";
import {TestUSD} from "../../src/TestUSD.sol";

/// @notice A market with a creator, an approver, a worker that is agent 1, and an arbitrator.
abstract contract EscrowBase is Check {
    uint256 internal constant CREATOR_KEY = 0xC0FFEE;
    uint256 internal constant WORKER_KEY = 0xB0B;
    uint256 internal constant OTHER_KEY = 0x0DD;
    uint64 internal constant START = 1_800_000_000;
    uint32 internal constant WINDOW = 3600;
    uint128 internal constant REWARD = 100e6;
    uint128 internal constant CREATOR_BOND = 8e6;
    uint128 internal constant WORKER_BOND = 4e6;
    uint256 internal constant PURSE = 1000e6;

    Escrow internal escrow;
    IdentityRegistry internal identity;
    TestUSD internal usd;
    address internal creator = vm.addr(CREATOR_KEY);
    address internal worker = vm.addr(WORKER_KEY);
    address internal other = vm.addr(OTHER_KEY);
    address internal approver = address(0xA991);
    address internal arbitrator = address(0xA4B);
    address internal treasury = address(0x7EA);
    address internal dead = 0x000000000000000000000000000000000000dEaD;

    function setUp() public virtual {
        vm.warp(START);
        identity = new IdentityRegistry();
        usd = new TestUSD(address(this));
        escrow = new Escrow(
            address(this),
            treasury,
            IAgentWallets(address(identity)),
            EscrowPolicy.Minimums(WINDOW, WINDOW, 12 * WINDOW)
        );
        list(address(usd));
        usd.mint(creator, PURSE);
        usd.mint(worker, PURSE);
        allow(address(usd), creator);
        allow(address(usd), worker);
        vm.prank(worker);
        identity.register("ipfs://worker");
    }

    function list(address token) internal {
        escrow.setToken(IERC20(token), EscrowPolicy.TokenRule(true, 1e6, 1e6));
    }

    function allow(address token, address holder) internal {
        vm.prank(holder);
        IERC20(token).approve(address(escrow), type(uint256).max);
    }

    function terms() internal view returns (IEscrow.Terms memory t) {
        t.creator = creator;
        t.approver = approver;
        t.arbitrator = arbitrator;
        t.token = IERC20(address(usd));
        (t.reward, t.creatorBond, t.workerBond) = (REWARD, CREATOR_BOND, WORKER_BOND);
        t.deliveryDeadline = START + 7 days;
        (t.reviewWindow, t.disputeWindow, t.arbitrationWindow) = (WINDOW, 2 * WINDOW, 12 * WINDOW);
        (t.feeBps, t.forfeitBps) = (250, 2500);
        t.termsHash = keccak256("offer");
        t.salt = keccak256("operation key");
    }

    function published() internal returns (bytes32) {
        return published(terms());
    }

    function published(IEscrow.Terms memory t) internal returns (bytes32) {
        vm.prank(creator);
        return escrow.publish(t);
    }

    function selection(bytes32 id) internal view returns (IEscrow.Selection memory) {
        return IEscrow.Selection(id, worker, 1, uint64(block.timestamp + 1 days), 1);
    }

    function selectionDigest(IEscrow.Selection memory s, uint256 chain, address verifier)
        internal
        pure
        returns (bytes32)
    {
        bytes32 structHash = keccak256(
            abi.encode(
                keccak256(
                    "Selection(bytes32 jobId,address worker,uint256 workerAgentId,uint64 activateBy,uint64 nonce)"
                ),
                s
            )
        );
        return typed("SidequestEscrow", chain, verifier, structHash);
    }

    function selectionSignature(IEscrow.Selection memory s) internal view returns (bytes memory) {
        return signed(CREATOR_KEY, selectionDigest(s, block.chainid, address(escrow)));
    }

    function activated() internal returns (bytes32) {
        return activated(terms());
    }

    function activated(IEscrow.Terms memory t) internal returns (bytes32 id) {
        id = published(t);
        activate(selection(id));
    }

    function activate(IEscrow.Selection memory s) internal {
        bytes memory signature = selectionSignature(s);
        vm.prank(worker);
        escrow.activate(s, signature);
    }

    function submitted() internal returns (bytes32) {
        return submitted(terms());
    }

    function submitted(IEscrow.Terms memory t) internal returns (bytes32 id) {
        id = activated(t);
        vm.prank(worker);
        escrow.submit(id, keccak256("work"));
    }

    function rejected(IEscrow.Violation v) internal returns (bytes32 id) {
        id = submitted();
        vm.prank(approver);
        escrow.reject(id, v, keccak256("reason"));
    }

    function disputed(IEscrow.Violation v) internal returns (bytes32 id) {
        id = rejected(v);
        vm.prank(worker);
        escrow.dispute(id, keccak256("statement"));
    }

    function status(bytes32 id) internal view returns (IEscrow.Status) {
        return escrow.job(id).status;
    }

    /// @dev What each has in the end, as the difference to the beginning, and that nothing is left behind.
    function paid(
        bytes32 id,
        IEscrow.Status ended,
        int256 toCreator,
        int256 toWorker,
        uint256 toTreasury,
        uint256 burned
    ) internal view {
        yes(status(id) == ended, "status");
        eq(usd.balanceOf(creator), uint256(int256(PURSE) + toCreator), "creator");
        eq(usd.balanceOf(worker), uint256(int256(PURSE) + toWorker), "worker");
        eq(usd.balanceOf(treasury), toTreasury, "treasury");
        eq(usd.balanceOf(dead), burned, "burned");
        eq(usd.balanceOf(address(escrow)), 0, "left in escrow");
        eq(escrow.locked(IERC20(address(usd))), 0, "locked");
        due(id, IEscrow.Action.None, address(0), 0);
    }

    function due(bytes32 id, IEscrow.Action wantAction, address wantActor, uint256 wantDeadline) internal view {
        (IEscrow.Action action, address actor, uint64 deadline) = escrow.next(id);
        yes(action == wantAction, "next action");
        eq(actor, wantActor, "next actor");
        eq(deadline, wantDeadline, "deadline");
    }

    function callDigest(IEscrow.Call memory c, uint256 chain, address verifier) internal pure returns (bytes32) {
        bytes32 structHash = keccak256(
            abi.encode(
                keccak256("Call(address signer,bytes data,uint256 nonce,uint256 deadline)"),
                c.signer,
                keccak256(c.data),
                c.nonce,
                c.deadline
            )
        );
        return typed("SidequestEscrow", chain, verifier, structHash);
    }

    function receiveDigest(address from, uint256 value, uint256 validBefore, bytes32 nonce)
        internal
        view
        returns (bytes32)
    {
        bytes32 structHash = keccak256(
            abi.encode(usd.RECEIVE_WITH_AUTHORIZATION_TYPEHASH(), from, address(escrow), value, 0, validBefore, nonce)
        );
        return typed("Test USD", block.chainid, address(usd), structHash);
    }

    function permitSignature(uint256 key, uint256 value, uint256 deadline)
        internal
        view
        returns (uint8 v, bytes32 r, bytes32 s)
    {
        address owner = vm.addr(key);
        bytes32 structHash = keccak256(
            abi.encode(
                keccak256("Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)"),
                owner,
                address(escrow),
                value,
                usd.nonces(owner),
                deadline
            )
        );
        return vm.sign(key, typed("Test USD", block.chainid, address(usd), structHash));
    }
}
